import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;

/** Mutexes, read-write locks, semaphores. */
final class Locks {
    private static final int CONTENDERS = 5;
    private static final int ROUNDS = 6;

    interface Maker {
        InterProcessLock lock(CuratorFramework client);
    }

    private Locks() {}

    static void run(CuratorFramework client) throws Exception {
        List<CuratorFramework> contenders = new ArrayList<>();
        for (int i = 0; i < CONTENDERS; i++) {
            contenders.add(Clients.start());
        }
        contend("InterProcessMutex", contenders, each -> new InterProcessMutex(each, "/mutex"));
        contend("InterProcessSemaphoreMutex", contenders, each -> new InterProcessSemaphoreMutex(each, "/semaphore-mutex"));
        contend("write lock", contenders, each -> new InterProcessReadWriteLock(each, "/contended-rw").writeLock());
        contend("InterProcessMultiLock", contenders, each -> new InterProcessMultiLock(each, List.of("/ml/a", "/ml/b")));
        mutex(contenders.get(0), contenders.get(1));
        readWrite(contenders.get(0), contenders.get(1), contenders.get(2));
        semaphore(contenders.get(0), contenders.get(1), contenders.get(2));
        for (CuratorFramework each : contenders) {
            each.close();
        }
    }

    private static void contend(String what, List<CuratorFramework> clients, Maker maker) {
        Checks.check(what + ": five contenders, one at a time", () -> {
            AtomicInteger inside = new AtomicInteger();
            AtomicInteger held = new AtomicInteger();
            List<CompletableFuture<Void>> contenders = clients.stream().map(client -> CompletableFuture.runAsync(() -> {
                try {
                    for (int i = 0; i < ROUNDS; i++) {
                        InterProcessLock lock = maker.lock(client);
                        Checks.hold("acquired in time", lock.acquire(20, TimeUnit.SECONDS));
                        Checks.equal(inside.incrementAndGet(), 1);
                        held.incrementAndGet();
                        inside.decrementAndGet();
                        lock.release();
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }, task -> new Thread(task).start())).toList();
            for (CompletableFuture<Void> contender : contenders) {
                contender.get(30, TimeUnit.SECONDS);
            }
            Checks.equal(held.get(), CONTENDERS * ROUNDS);
        });
    }

    private static void mutex(CuratorFramework one, CuratorFramework two) {
        Checks.check("InterProcessMutex: held again by its thread, refused to others, participants listed", () -> {
            InterProcessMutex mine = new InterProcessMutex(one, "/reentrant");
            InterProcessMutex theirs = new InterProcessMutex(two, "/reentrant");
            mine.acquire();
            mine.acquire();
            Checks.hold("refused", !theirs.acquire(200, TimeUnit.MILLISECONDS));
            mine.release();
            Checks.hold("refused still", !theirs.acquire(200, TimeUnit.MILLISECONDS));
            Checks.equal(theirs.getParticipantNodes().size(), 1);
            mine.release();
            Checks.hold("acquired", theirs.acquire(5, TimeUnit.SECONDS));
            theirs.release();
        });
        Checks.check("InterProcessMutex: revoked on request", () -> {
            InterProcessMutex mine = new InterProcessMutex(one, "/revocable");
            CompletableFuture<Void> asked = new CompletableFuture<>();
            mine.makeRevocable(lock -> asked.complete(null));
            mine.acquire();
            String node = mine.getParticipantNodes().iterator().next();
            Revoker.attemptRevoke(two, node);
            asked.get(5, TimeUnit.SECONDS);
            mine.release();
        });
        Checks.check("InterProcessMutex: passes on when its holder's session ends", () -> {
            CuratorFramework mortal = Clients.start();
            new InterProcessMutex(mortal, "/inherited").acquire();
            InterProcessMutex heir = new InterProcessMutex(two, "/inherited");
            Checks.hold("refused", !heir.acquire(100, TimeUnit.MILLISECONDS));
            mortal.close();
            Checks.hold("acquired", heir.acquire(5, TimeUnit.SECONDS));
            heir.release();
        });
    }

    private static void readWrite(CuratorFramework one, CuratorFramework two, CuratorFramework three) {
        Checks.check("InterProcessReadWriteLock: readers together, the writer alone", () -> {
            InterProcessReadWriteLock first = new InterProcessReadWriteLock(one, "/rw");
            InterProcessReadWriteLock second = new InterProcessReadWriteLock(two, "/rw");
            InterProcessReadWriteLock third = new InterProcessReadWriteLock(three, "/rw");
            first.readLock().acquire();
            Checks.hold("a second reader", second.readLock().acquire(5, TimeUnit.SECONDS));
            Checks.hold("no writer", !third.writeLock().acquire(200, TimeUnit.MILLISECONDS));
            first.readLock().release();
            second.readLock().release();
            Checks.hold("the writer", third.writeLock().acquire(5, TimeUnit.SECONDS));
            Checks.hold("no reader", !first.readLock().acquire(200, TimeUnit.MILLISECONDS));
            Checks.hold("the writer may read", third.readLock().acquire(5, TimeUnit.SECONDS));
            third.writeLock().release();
            Checks.hold("readers after the downgrade", first.readLock().acquire(5, TimeUnit.SECONDS));
            first.readLock().release();
            third.readLock().release();
        });
    }

    private static void semaphore(CuratorFramework one, CuratorFramework two, CuratorFramework three) {
        Checks.check("InterProcessSemaphoreV2: as many leases as allowed", () -> {
            InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(one, "/semaphore", 2);
            InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(two, "/semaphore", 2);
            InterProcessSemaphoreV2 third = new InterProcessSemaphoreV2(three, "/semaphore", 2);
            Lease a = first.acquire(5, TimeUnit.SECONDS);
            Lease b = second.acquire(5, TimeUnit.SECONDS);
            Checks.hold("two leases", a != null && b != null);
            Checks.equal(third.acquire(300, TimeUnit.MILLISECONDS), null);
            first.returnLease(a);
            Lease c = third.acquire(5, TimeUnit.SECONDS);
            Checks.hold("the third", c != null);
            Checks.equal(third.getParticipantNodes().size(), 2);
            second.returnLease(b);
            third.returnLease(c);
        });
    }
}
