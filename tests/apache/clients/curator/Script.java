import org.apache.curator.framework.CuratorFramework;

/** Curator against a server: see ../README.md. */
final class Script {
    private Script() {}

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = Clients.start(); CuratorFramework outside = Clients.startDirect()) {
            Framework.run(client, outside);
            Locks.run(client);
            Leaders.run(client, outside);
            Caches.run(client, outside);
            OtherRecipes.run(client, outside);
            Sessions.run(client, outside);
        }
        Checks.finish();
    }
}
