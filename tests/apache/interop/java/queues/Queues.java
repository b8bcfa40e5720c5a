import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/** Curator's counters, values and queues under the orders of ../../queues.py and benches/queues/run. */
public class Queues {
    private static final QueueSerializer<String> TEXT = new QueueSerializer<String>() {
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    private final CuratorFramework client;

    private Queues(String hosts) throws Exception {
        client = CuratorFrameworkFactory.builder().connectString(hosts).sessionTimeoutMs(30_000)
            .retryPolicy(new ExponentialBackoffRetry(20, 10)).build();
        client.start();
        client.blockUntilConnected();
    }

    public static void main(String[] args) throws Exception {
        Queues queues = new Queues(args[0]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            try {
                System.out.println("ok " + queues.obey(line.split(" ")));
            } catch (Exception error) {
                System.out.println("error " + error);
            }
            System.out.flush();
        }
        System.exit(0);
    }

    private String obey(String[] words) throws Exception {
        String path = words.length > 2 ? words[2] : null;
        switch (words[0]) {
            case "add": return String.valueOf(add(words[1], path, Integer.parseInt(words[3])));
            case "get": return String.valueOf(add(words[1], path, 0));
            case "cas": return String.valueOf(compareAndSet(path, Long.parseLong(words[3]), Long.parseLong(words[4])));
            case "value": return value(words[1]);
            case "replace": return replace(words[1], words[2]);
            case "put": return put(words[1], path, words[3]);
            case "take": return take(words[1], path);
            case "count": return timed(count(words[1], path), Integer.parseInt(words[3]));
            case "fill": return timed(fill(words[1], path), Integer.parseInt(words[3]));
            case "empty": return empty(words[1], path, Integer.parseInt(words[3]));
            default: throw new IllegalArgumentException(String.join(" ", words));
        }
    }

    private interface Step {
        void run(int n) throws Exception;
    }

    private static String timed(Step step, int times) throws Exception {
        long began = System.nanoTime();
        for (int n = 0; n < times; n++) {
            step.run(n);
        }
        return String.valueOf((System.nanoTime() - began) / 1e9);
    }

    private static <T> T succeeded(AtomicValue<T> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("not succeeded");
        }
        return value.postValue();
    }

    private long add(String layout, String path, int delta) throws Exception {
        switch (layout) {
            case "i64": {
                DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(100, 1));
                return delta == 0 ? counter.get().postValue() : succeeded(counter.add((long) delta));
            }
            case "i32": {
                DistributedAtomicInteger counter = new DistributedAtomicInteger(client, path, new RetryNTimes(100, 1));
                return delta == 0 ? counter.get().postValue() : succeeded(counter.add(delta));
            }
            case "shared":
                try (SharedCount counter = new SharedCount(client, path, 0)) {
                    counter.start();
                    while (delta != 0 && !counter.trySetCount(counter.getVersionedValue(), counter.getCount() + delta)) {
                    }
                    return counter.getCount();
                }
            default: throw new IllegalArgumentException(layout);
        }
    }

    private boolean compareAndSet(String path, long expected, long next) throws Exception {
        return new DistributedAtomicLong(client, path, new RetryNTimes(10, 10)).compareAndSet(expected, next).succeeded();
    }

    private String value(String path) throws Exception {
        try (SharedValue value = new SharedValue(client, path, new byte[0])) {
            value.start();
            return TEXT.deserialize(value.getValue());
        }
    }

    private String replace(String path, String data) throws Exception {
        try (SharedValue value = new SharedValue(client, path, new byte[0])) {
            value.start();
            value.setValue(TEXT.serialize(data));
            return "";
        }
    }

    private Step count(String layout, String path) {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(10_000, 0));
        return n -> succeeded(counter.increment());
    }

    private SimpleDistributedQueue simple(String path) throws Exception {
        return new SimpleDistributedQueue(client, path);
    }

    private DistributedQueue<String> distributed(String path, LinkedBlockingQueue<String> consumed) throws Exception {
        QueueConsumer<String> consumer = consumed == null ? null : new QueueConsumer<String>() {
            public void consumeMessage(String item) {
                consumed.add(item);
            }

            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        };
        DistributedQueue<String> queue = QueueBuilder.builder(client, consumer, TEXT, path).buildQueue();
        queue.start();
        return queue;
    }

    /** For the queue that takes several items at once, they are separated by commas. */
    private String put(String layout, String path, String data) throws Exception {
        if (layout.equals("simple")) {
            simple(path).offer(TEXT.serialize(data));
            return "";
        }
        Iterator<String> items = List.of(data.split(",")).iterator();
        MultiItem<String> several = () -> items.hasNext() ? items.next() : null;
        try (DistributedQueue<String> queue = distributed(path, null)) {
            queue.putMulti(several);
            queue.flushPuts(10, TimeUnit.SECONDS);
        }
        return "";
    }

    private String take(String layout, String path) throws Exception {
        byte[] data = simple(path).poll();
        return data == null ? "-" : TEXT.deserialize(data);
    }

    private Step fill(String layout, String path) throws Exception {
        if (layout.equals("simple")) {
            SimpleDistributedQueue queue = simple(path);
            return n -> queue.offer(TEXT.serialize(String.valueOf(n)));
        }
        DistributedQueue<String> queue = distributed(path, null);
        return n -> {
            queue.put(String.valueOf(n));
            // Until it is there; without this, a lost item is not even reported.
            queue.flushPuts(10, TimeUnit.SECONDS);
        };
    }

    private String empty(String layout, String path, int times) throws Exception {
        if (layout.equals("simple")) {
            SimpleDistributedQueue queue = simple(path);
            return timed(n -> queue.take(), times);
        }
        LinkedBlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        long began = System.nanoTime();
        try (DistributedQueue<String> queue = distributed(path, consumed)) {
            for (int n = 0; n < times; n++) {
                consumed.take();
            }
            return String.valueOf((System.nanoTime() - began) / 1e9);
        }
    }
}
