import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryForever;

/** Curator's recipes. */
final class CuratorContenders implements Contenders.Session {
    private final CuratorFramework client;

    private CuratorContenders(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        Contenders.serve(args[0], CuratorContenders::connect);
    }

    private static CuratorContenders connect(String hosts) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(hosts)
            .sessionTimeoutMs(Contenders.SESSION_MS)
            .retryPolicy(new RetryForever(50))
            .build();
        client.start();
        if (!client.blockUntilConnected(Contenders.SESSION_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("not connected");
        }
        return new CuratorContenders(client);
    }

    @Override
    public Contenders.Held acquire(String dir, String kind) throws Exception {
        String[] parts = kind.split(":");
        switch (parts[0]) {
            case "lock":
                return parts.length > 1 ? holdRevocable(new InterProcessMutex(client, dir))
                    : hold(new InterProcessMutex(client, dir));
            case "read":
                return hold(new InterProcessReadWriteLock(client, dir).readLock());
            case "write":
                return hold(new InterProcessReadWriteLock(client, dir).writeLock());
            case "semaphore":
                InterProcessSemaphoreV2 semaphore =
                    new InterProcessSemaphoreV2(client, dir, Integer.parseInt(parts[1]));
                Lease lease = semaphore.acquire();
                return () -> semaphore.returnLease(lease);
            case "election":
                LeaderLatch latch = new LeaderLatch(client, dir);
                latch.start();
                latch.await();
                return latch::close;
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static Contenders.Held hold(InterProcessLock lock) throws Exception {
        lock.acquire();
        return lock::release;
    }

    private static Contenders.Held holdRevocable(InterProcessMutex lock) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        lock.makeRevocable(ignored -> asked.countDown());
        lock.acquire();
        return new Contenders.Held() {
            @Override
            public void release() throws Exception {
                lock.release();
            }

            @Override
            public void hear() throws Exception {
                asked.await();
            }
        };
    }

    @Override
    public void revoke(String dir) throws Exception {
        Revoker.attemptRevoke(client, new InterProcessMutex(client, dir).getParticipantNodes().iterator().next());
    }

    @Override
    public byte[] get(String path) throws Exception {
        return client.getData().forPath(path);
    }

    @Override
    public void set(String path, byte[] data) throws Exception {
        client.setData().forPath(path, data);
    }

    @Override
    public void close() {
        client.close();
    }
}
