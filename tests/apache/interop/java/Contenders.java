import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The protocol of ../README.md for a client in Java: contenders by name, each with a session and a thread of its own. */
final class Contenders {
    static final int SESSION_MS = 10_000;

    interface Session {
        Held acquire(String dir, String kind) throws Exception;

        byte[] get(String path) throws Exception;

        void set(String path, byte[] data) throws Exception;

        /** Asks the holder for the lock. */
        default void revoke(String dir) throws Exception {
            throw new UnsupportedOperationException("revoke");
        }

        void close() throws Exception;
    }

    interface Held {
        void release() throws Exception;

        /** Waits until somebody asks for the lock. */
        default void hear() throws Exception {
            throw new UnsupportedOperationException("hear");
        }
    }

    interface Connector {
        Session connect(String hosts) throws Exception;
    }

    interface Obedient {
        String obey(String[] words) throws Exception;
    }

    private interface Work {
        String run() throws Exception;
    }

    private static final class Contender {
        final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        volatile Session session;
        Held held;
    }

    private Contenders() {}

    /** Obeys commands until there are no more. */
    static void serve(String hosts, Connector connector) throws Exception {
        Map<String, Contender> contenders = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            String id = words[1];
            if (words[0].equals("close")) {
                close(contenders.remove(id));
                say("closed " + id);
                continue;
            }
            Contender contender = contenders.computeIfAbsent(id, ignored -> new Contender());
            contender.thread.execute(() -> {
                try {
                    if (contender.session == null) {
                        contender.session = connector.connect(hosts);
                    }
                    say(obey(contender, words));
                } catch (Throwable error) {
                    error.printStackTrace();
                    say("error " + id + " " + error.toString().replace('\n', ' '));
                }
            });
        }
        System.exit(0);
    }

    private static String obey(Contender contender, String[] words) throws Exception {
        String id = words[1];
        switch (words[0]) {
            case "acquire":
                contender.held = contender.session.acquire(words[2], words[3]);
                return "acquired " + id;
            case "release":
                contender.held.release();
                contender.held = null;
                return "released " + id;
            case "revoke":
                contender.session.revoke(words[2]);
                return "revoked " + id;
            case "hear":
                contender.held.hear();
                return "heard " + id;
            case "contend":
                long end = System.nanoTime() + Integer.parseInt(words[5]) * 1_000_000L;
                int times = 0;
                for (; System.nanoTime() < end; times++) {
                    Held held = contender.session.acquire(words[2], words[3]);
                    work(contender.session, words[3], words[4]);
                    held.release();
                }
                return "contended " + id + " " + times;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /**
     * What is done under the lock. Who writes counts in two steps and without a look at versions: whoever does the same
     * meanwhile takes one away. Who reads sees to it that nobody counts meanwhile.
     */
    private static void work(Session session, String kind, String counter) throws Exception {
        int count = count(session, counter);
        if (!kind.startsWith("read")) {
            session.set(counter, Integer.toString(count + 1).getBytes(StandardCharsets.UTF_8));
        } else if (count(session, counter) != count) {
            throw new IllegalStateException("another client writes while this one reads");
        }
    }

    private static int count(Session session, String counter) throws Exception {
        return Integer.parseInt(new String(session.get(counter), StandardCharsets.UTF_8));
    }

    private static void close(Contender contender) throws Exception {
        if (contender != null) {
            if (contender.session != null) {
                contender.session.close();
            }
            contender.thread.shutdownNow();
        }
    }

    /** Obeys commands of one session, one after the other, until there are no more. */
    static void serve(Obedient program) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            try {
                say(program.obey(words));
            } catch (Throwable error) {
                error.printStackTrace();
                say("error " + words[1] + " " + error.toString().replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
