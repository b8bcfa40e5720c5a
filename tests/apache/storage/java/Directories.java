package org.apache.zookeeper.server;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;

import org.apache.zookeeper.server.persistence.FilePadding;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.persistence.SnapStream;
import org.apache.zookeeper.server.persistence.TxnLogToolkit;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Starts a standalone server on one data directory after the other, in one process, because a process for each would take
 * twenty times as long. In the package of the server, for what is not public there.
 *
 * A command is one line of fields with tabs between them. The answer is any number of lines, and one more that begins with
 * "ok" or "failed". What the server logs as a warning or worse is part of the next answer, as lines that begin with "log".
 *
 *   start DATA_DIR LOG_DIR [NAME=VALUE ..]   names and defaults: see Settings
 *   raw                                      what no client sees of each znode, and the sessions
 *   stop                                     shuts the server down
 *   toolkit FILE                             what zkTxnLogToolkit says of a log
 *
 * The process ends with its input.
 */
public class Directories {
    private final PrintStream out = new PrintStream(System.out, false, "UTF-8");
    private final ByteArrayOutputStream log = new ByteArrayOutputStream();
    private ServerCnxnFactory factory;
    private ContainerManager containers;
    private ZooKeeperServer server;
    private FileTxnSnapLog files;

    private Directories() throws Exception {
    }

    public static void main(String[] args) throws Exception {
        new Directories().run();
    }

    private void run() throws Exception {
        // Before the first logger is made.
        System.setErr(new PrintStream(log, true, "UTF-8"));
        // The digest of super:secret: who dumps the tree may read all of it.
        System.setProperty("zookeeper.DigestAuthenticationProvider.superDigest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
        System.setProperty("zookeeper.4lw.commands.whitelist", "*");
        System.setProperty("zookeeper.admin.enableServer", "false");
        // Without a limit each start warns.
        System.setProperty("zookeeper.maxCnxns", "100000");
        // A directory is compared after the process ends, not after the machine does.
        System.setProperty("zookeeper.forceSync", "no");
        ServiceUtils.setSystemExitProcedure(code -> System.err.println("ERROR exit code " + code));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok " + execute(line.split("\t", -1));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer = "failed " + error + "\t" + trace.toString().replace("\n", "\t");
            }
            takeLog();
            out.println(answer.replace("\n", "\t"));
            out.flush();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private String execute(String[] words) throws Exception {
        switch (words[0]) {
            case "start":
                return start(new File(words[1]), new File(words[2]), new Settings(words));
            case "raw":
                return raw();
            case "stop":
                stop();
                return "";
            case "toolkit":
                return toolkit(words[1]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void takeLog() throws Exception {
        String text;
        synchronized (log) {
            text = log.toString("UTF-8");
            log.reset();
        }
        text.lines().forEach(line -> out.println("log " + line));
    }

    /** As ZooKeeperServerMain does it. */
    private String start(File data, File logs, Settings settings) throws Exception {
        settings.apply();
        try {
            files = new FileTxnSnapLog(logs, data);
            server = new ZooKeeperServer(null, files, settings.number("tickTime"), settings.number("minSessionTimeout"),
                    settings.number("maxSessionTimeout"), 0, null, "");
            files.setServerStats(server.serverStats());
            factory = ServerCnxnFactory.createFactory();
            factory.configure(settings.address(), 0, 0, false);
            factory.startup(server);
            containers = new ContainerManager(server.getZKDatabase(), server.firstProcessor,
                    settings.number("containerCheck"), 10_000_000);
            containers.start();
        } catch (Throwable error) {
            try {
                stop();
            } catch (Throwable second) {
                error.addSuppressed(second);
            }
            throw error;
        }
        return Integer.toString(factory.getLocalPort());
    }

    private void stop() throws Exception {
        if (containers != null) {
            containers.stop();
        }
        if (factory != null) {
            factory.shutdown();
            factory.join();
        }
        if (server != null) {
            server.shutdown(true);
        }
        if (files != null) {
            files.close();
        }
        containers = null;
        factory = null;
        server = null;
        files = null;
    }

    /** Of each znode the owner, as it is stored, and the path; then id and timeout of each session. */
    private String raw() {
        raw("");
        new TreeMap<>(server.getZKDatabase().getSessionWithTimeOuts()).forEach(
                (id, timeout) -> out.println("session " + Long.toHexString(id) + " " + timeout));
        return "";
    }

    private void raw(String path) {
        DataNode node = server.getZKDatabase().getDataTree().getNode(path.isEmpty() ? "/" : path);
        String[] children;
        synchronized (node) {
            out.println("owner " + Long.toHexString(node.stat.getEphemeralOwner()) + " "
                    + (path.isEmpty() ? "/" : path));
            children = node.getChildren().toArray(new String[0]);
        }
        Arrays.sort(children);
        for (String child : children) {
            raw(path + "/" + child);
        }
    }

    private String toolkit(String file) throws Exception {
        PrintStream stdout = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        try (TxnLogToolkit toolkit = new TxnLogToolkit(false, true, file, false)) {
            toolkit.dump(new Scanner(""));
        } finally {
            System.setOut(stdout);
        }
        printed.toString("UTF-8").lines().forEach(line -> out.println("line " + line));
        return "";
    }

    private static class Settings {
        private final Map<String, String> values = new HashMap<>(Map.ofEntries(
                Map.entry("address", "127.0.0.1:0"),
                // No session expires and no container goes while a directory is looked at.
                Map.entry("tickTime", "1000000000"),
                Map.entry("minSessionTimeout", "1"),
                Map.entry("maxSessionTimeout", "1000000000"),
                Map.entry("containerCheck", "1000000000"),
                Map.entry("snapCount", "100000"),
                // KiB
                Map.entry("preAllocSize", "64"),
                Map.entry("digest", "true"),
                Map.entry("extendedTypes", "true"),
                Map.entry("trustEmptySnapshot", "false"),
                // empty, gz or snappy
                Map.entry("compression", "")));

        Settings(String[] words) {
            for (String word : Arrays.asList(words).subList(3, words.length)) {
                String[] pair = word.split("=", 2);
                if (values.put(pair[0], pair[1]) == null) {
                    throw new IllegalArgumentException(word);
                }
            }
        }

        InetSocketAddress address() {
            String[] parts = values.get("address").split(":");
            return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        }

        int number(String name) {
            return Integer.parseInt(values.get(name));
        }

        /** What is not an argument of the server. Some of it is read once, by the first server of a process. */
        void apply() {
            System.setProperty("zookeeper.snapCount", values.get("snapCount"));
            System.setProperty("zookeeper.extendedTypesEnabled", values.get("extendedTypes"));
            System.setProperty("zookeeper.snapshot.trust.empty", values.get("trustEmptySnapshot"));
            FilePadding.setPreallocSize(number("preAllocSize") * 1024L);
            ZooKeeperServer.setDigestEnabled(Boolean.parseBoolean(values.get("digest")));
            SnapStream.setStreamMode(SnapStream.StreamMode.fromString(values.get("compression")));
        }
    }
}
