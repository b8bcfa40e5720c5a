import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/** Curator's x-discovery and GroupMember, by lines as in ../../driver/services.py. */
final class CuratorServices {
    private static final String SERVICE = "web";

    private final CuratorFramework client;
    private final Map<String, AutoCloseable> open = new HashMap<>();

    private CuratorServices(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[0])
            .sessionTimeoutMs(Contenders.SESSION_MS)
            .retryPolicy(new RetryForever(50))
            .build();
        client.start();
        if (!client.blockUntilConnected(Contenders.SESSION_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("not connected");
        }
        Contenders.serve(new CuratorServices(client)::obey);
    }

    private String obey(String[] words) throws Exception {
        String id = words[1];
        switch (words[0]) {
            case "register": {
                ServiceDiscovery<Object> discovery = discovery(words[2], words[3]);
                discovery.start();
                discovery.registerService(instance(id, words[4]));
                open.put(id, discovery);
                return "registered " + id;
            }
            case "query": {
                try (ServiceDiscovery<Object> discovery = discovery(words[2], "enabled")) {
                    discovery.start();
                    List<String> found = new ArrayList<>();
                    for (ServiceInstance<Object> instance : discovery.queryForInstances(SERVICE)) {
                        found.add(instance.getId() + "=" + instance.buildUriSpec() + "=" + instance.isEnabled()
                            + "=" + (instance.getPayload() != null));
                    }
                    Collections.sort(found);
                    return "found " + id + " " + String.join(" ", found);
                }
            }
            case "provide": {
                try (ServiceDiscovery<Object> discovery = discovery(words[2], "enabled")) {
                    discovery.start();
                    try (ServiceProvider<Object> provider =
                        discovery.serviceProviderBuilder().serviceName(SERVICE).build()) {
                        provider.start();
                        ServiceInstance<Object> chosen = provider.getInstance();
                        return "chosen " + id + " " + (chosen == null ? "none" : chosen.getId());
                    }
                }
            }
            case "join": {
                GroupMember member = new GroupMember(client, words[2], id, "curator".getBytes(StandardCharsets.UTF_8));
                member.start();
                open.put(id, member);
                return "joined " + id;
            }
            case "members":
                return "found " + id + " "
                    + String.join(" ", new TreeSet<>(((GroupMember) open.get(id)).getCurrentMembers().keySet()));
            case "leave":
                open.remove(id).close();
                return "left " + id;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private ServiceDiscovery<Object> discovery(String base, String mode) {
        return ServiceDiscoveryBuilder.builder(Object.class)
            .client(client)
            .basePath(base)
            .serializer(new JsonInstanceSerializer<>(Object.class, mode.equals("compatible")))
            .build();
    }

    /** The same as ours of this shape. */
    private static ServiceInstance<Object> instance(String id, String shape) throws Exception {
        ServiceInstanceBuilder<Object> builder = ServiceInstance.builder()
            .name(SERVICE)
            .id(id)
            .address("10.0.0.1")
            .registrationTimeUTC(1_700_000_000_000L);
        switch (shape) {
            case "bare":
                return builder.build();
            case "text":
                return builder.port(80).payload("\u00e9 \" \\ \n \u20ac").build();
            case "full":
                Map<String, Object> payload = new LinkedHashMap<>();
                payload.put("weight", 3);
                payload.put("zone", "eu");
                return builder.port(80).sslPort(443).payload(payload)
                    .uriSpec(new UriSpec("{scheme}://{address}:{ssl-port}/{x}")).build();
            case "disabled":
                return builder.port(80).enabled(false).build();
            default:
                throw new IllegalArgumentException(shape);
        }
    }
}
