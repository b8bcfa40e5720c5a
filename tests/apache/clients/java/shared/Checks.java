import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;

/** Checks, waiting, and the proxy's control port. */
final class Checks {
    static final String HOSTS = System.getenv("ZK_HOSTS");      // through the proxy
    static final String DIRECT = System.getenv("ZK_DIRECT");    // past it
    static final String CONTROL = System.getenv("ZK_CONTROL");
    static final String ROOT = System.getenv("ZK_ROOT");        // not created yet
    /** What every session is, beside its address. */
    static final List<Id> IDENTITIES = Optional.ofNullable(System.getenv("ZK_IDENTITIES")).orElse("").lines()
        .map(line -> line.split(" ", 2)).map(part -> new Id(part[0], part[1])).toList();
    static final int PATIENCE_MS = 15_000;
    private static int failed;

    interface Block {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private Checks() {}

    /** One check: whatever is thrown in the block makes it fail, and the script goes on. */
    static void check(String what, Block block) {
        try {
            block.run();
            System.out.println("ok " + what);
        } catch (Exception | AssertionError error) {
            failed++;
            System.out.println("not ok " + what + ": " + error.toString().replace('\n', ' '));
            error.printStackTrace(System.out);
        }
    }

    /** The block has to be refused with this code. */
    static void refused(KeeperException.Code code, Block block) throws Exception {
        try {
            block.run();
        } catch (KeeperException refusal) {
            equal(refusal.code(), code);
            return;
        }
        throw new AssertionError("not refused, expected " + code);
    }

    static void equal(Object got, Object expected) {
        if (!Objects.deepEquals(got, expected)) {
            throw new AssertionError("got " + text(got) + ", expected " + text(expected));
        }
    }

    /** The ACL that an entry `auth` of someone with this id stands for. */
    static void creatorOnly(List<ACL> got, Id id) {
        Set<ACL> expected = new HashSet<>(Set.of(new ACL(Perms.ALL, id)));
        IDENTITIES.forEach(own -> expected.add(new ACL(Perms.ALL, own)));
        equal(new HashSet<>(got), expected);
    }

    static void hold(String what, boolean condition) {
        if (!condition) {
            throw new AssertionError("not so: " + what);
        }
    }

    static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("still not so: " + what);
            }
            Thread.sleep(20);
        }
    }

    /** Has the proxy obey a command. */
    static void control(String command) throws Exception {
        String[] address = CONTROL.split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.getOutputStream().write((command + "\n").getBytes(StandardCharsets.US_ASCII));
            String answer = new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
            hold("the proxy obeys " + command, answer != null && answer.startsWith("ok"));
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void finish() {
        System.exit(failed > 0 ? 1 : 0);
    }

    private static String text(Object value) {
        return value instanceof byte[] data ? Arrays.toString(data) : String.valueOf(value);
    }
}
