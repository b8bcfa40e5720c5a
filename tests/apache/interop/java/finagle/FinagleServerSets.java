import com.twitter.finagle.Addr;
import com.twitter.finagle.common.zookeeper.ServerSet;
import com.twitter.finagle.common.zookeeper.ServerSetImpl;
import com.twitter.finagle.common.zookeeper.ZooKeeperClient;
import com.twitter.finagle.serverset2.Zk2Resolver;
import com.twitter.thrift.Endpoint;
import com.twitter.thrift.ServiceInstance;
import com.twitter.util.Await;
import com.twitter.util.Duration;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Finagle's ServerSets, and the resolver of its clients, by lines as in ../../driver/server_sets.py. */
final class FinagleServerSets {
    private static final String SERVICE = "/web";

    private final String hosts;
    private final ZooKeeperClient client;
    private final Map<String, ServerSet.EndpointStatus> open = new HashMap<>();

    private FinagleServerSets(String hosts) {
        String[] server = hosts.split(":");
        this.hosts = hosts;
        this.client = new ZooKeeperClient(Duration.fromMilliseconds(Contenders.SESSION_MS),
            new InetSocketAddress(server[0], Integer.parseInt(server[1])));
    }

    public static void main(String[] args) throws Exception {
        Contenders.serve(new FinagleServerSets(args[0])::obey);
    }

    private String obey(String[] words) throws Exception {
        String id = words[1];
        switch (words[0]) {
            case "register":
                open.put(id, join(new ServerSetImpl(client, words[2] + SERVICE), words[4]));
                return "registered " + id;
            case "servers":
                return "found " + id + " " + servers(words[2]);
            case "resolve": {
                // The znodes are read by sessions of the resolver's own.
                Addr found = Await.result(new Zk2Resolver().bind(hosts + "!" + words[2] + SERVICE).changes()
                    .filter(addr -> addr instanceof Addr.Bound).toFuture(), Duration.fromSeconds(15));
                List<String> addresses = new ArrayList<>();
                scala.jdk.javaapi.CollectionConverters.asJava(((Addr.Bound) found).addrs())
                    .forEach(address -> addresses.add(
                        ((com.twitter.finagle.Address.Inet) address).addr().toString().replaceAll(".*/", "")));
                Collections.sort(addresses);
                return "found " + id + " " + String.join(" ", addresses);
            }
            case "leave":
                open.remove(id).leave();
                return "left " + id;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** The same as ours of this shape. */
    private static ServerSet.EndpointStatus join(ServerSet set, String shape) throws Exception {
        switch (shape) {
            case "plain":
                return set.join(new InetSocketAddress("10.0.0.1", 80), Map.of());
            case "shard":
                return set.join(new InetSocketAddress("10.0.0.2", 80),
                    Map.of("admin", new InetSocketAddress("10.0.0.2", 81)), 3);
            default:
                throw new IllegalArgumentException(shape);
        }
    }

    private String servers(String base) throws Exception {
        CompletableFuture<Set<ServiceInstance>> first = new CompletableFuture<>();
        Runnable end = new ServerSetImpl(client, base + SERVICE).watch(first::complete);
        List<String> found = new ArrayList<>();
        for (ServiceInstance member : first.get(10, TimeUnit.SECONDS)) {
            List<String> words = new ArrayList<>(List.of(shown(member.getServiceEndpoint())));
            new TreeMap<>(member.getAdditionalEndpoints()).forEach((name, at) -> words.add(name + "=" + shown(at)));
            words.add(member.getStatus().toString());
            words.add(member.isSetShard() ? String.valueOf(member.getShard()) : "-");
            found.add(String.join(",", words));
        }
        end.run();
        Collections.sort(found);
        return String.join(" ", found);
    }

    private static String shown(Endpoint endpoint) {
        return endpoint.getHost() + ":" + endpoint.getPort();
    }
}
