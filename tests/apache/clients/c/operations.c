#include "script.h"

#include <stdlib.h>
#include <string.h>

static const char *four_modes(void)
{
    char made[100];
    struct Stat stat;
    CODE(create(client.zh, "/modes", ZOO_PERSISTENT), ZOK);
    CODE(create(client.zh, "/modes/p", ZOO_PERSISTENT), ZOK);
    CODE(create(client.zh, "/modes/e", ZOO_EPHEMERAL), ZOK);
    CODE(zoo_exists(client.zh, "/modes/e", 0, &stat), ZOK);
    NEED(stat.ephemeralOwner == session_id(&client));
    CODE(zoo_create(client.zh, "/modes/s-", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, made, sizeof made), ZOK);
    TEXT(made, "/modes/s-0000000002");
    CODE(zoo_create(client.zh, "/modes/es-", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, made, sizeof made), ZOK);
    TEXT(made, "/modes/es-0000000003");
    return NULL;
}

static const char *container_and_ttl(void)
{
    char made[100];
    struct Stat stat;
    CODE(create(client.zh, "/modes/c", ZOO_CONTAINER), ZOK);
    CODE(zoo_create_ttl(client.zh, "/modes/t", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 300, made, sizeof made), ZOK);
    TEXT(made, "/modes/t");
    CODE(zoo_create2_ttl(client.zh, "/modes/t-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 300,
                         made, sizeof made, &stat), ZOK);
    TEXT(made, "/modes/t-0000000006");
    NEED(stat.ephemeralOwner == 0 && stat.czxid > 0);
    return NULL;
}

static const char *create2_tells_the_stat(void)
{
    char made[100];
    struct Stat stat;
    CODE(zoo_create2(client.zh, "/modes/stat", "1234", 4, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, made, sizeof made, &stat), ZOK);
    TEXT(made, "/modes/stat");
    NEED(stat.dataLength == 4 && stat.version == 0);
    return NULL;
}

static const char *create_refused(void)
{
    CODE(create(client.zh, "/modes/p", ZOO_PERSISTENT), ZNODEEXISTS);
    CODE(create(client.zh, "/modes/none/x", ZOO_PERSISTENT), ZNONODE);
    CODE(create(client.zh, "/modes/e/x", ZOO_PERSISTENT), ZNOCHILDRENFOREPHEMERALS);
    CODE(create(client.zh, "/modes/control\x01", ZOO_PERSISTENT), ZBADARGUMENTS);
    return NULL;
}

static const char *vanishing(void)
{
    CODE(create(client.zh, "/modes/c/x", ZOO_PERSISTENT), ZOK);
    CODE(zoo_delete(client.zh, "/modes/c/x", -1), ZOK);
    EVENTUALLY(missing(client.zh, "/modes/c") && missing(client.zh, "/modes/t") && missing(client.zh, "/modes/t-0000000006"));
    return NULL;
}

static const char *get_and_set(void)
{
    char data[100];
    int length = sizeof data;
    struct Stat stat;
    CODE(create(client.zh, "/data", ZOO_PERSISTENT), ZOK);
    CODE(zoo_get(client.zh, "/data", 0, data, &length, &stat), ZOK);
    NEED(length == 1 && data[0] == 'x' && stat.version == 0);
    CODE(zoo_set2(client.zh, "/data", "three", 5, 0, &stat), ZOK);
    NEED(stat.version == 1 && stat.dataLength == 5);
    CODE(zoo_set(client.zh, "/data", "no", 2, 7), ZBADVERSION);
    CODE(zoo_set(client.zh, "/none", "no", 2, -1), ZNONODE);
    return NULL;
}

static const char *null_and_empty_data(void)
{
    char data[10];
    int length = sizeof data;
    CODE(zoo_set(client.zh, "/data", NULL, -1, -1), ZOK);
    CODE(zoo_get(client.zh, "/data", 0, data, &length, NULL), ZOK);
    NEED(length == -1);
    length = sizeof data;
    CODE(zoo_set(client.zh, "/data", "", 0, -1), ZOK);
    CODE(zoo_get(client.zh, "/data", 0, data, &length, NULL), ZOK);
    NEED(length == 0);
    return NULL;
}

static const char *children(void)
{
    struct String_vector names;
    struct Stat stat;
    CODE(create(client.zh, "/tree", ZOO_PERSISTENT), ZOK);
    CODE(create(client.zh, "/tree/a", ZOO_PERSISTENT), ZOK);
    CODE(create(client.zh, "/tree/b", ZOO_PERSISTENT), ZOK);
    CODE(zoo_get_children(client.zh, "/tree", 0, &names), ZOK);
    NEED(names.count == 2);
    deallocate_String_vector(&names);
    CODE(zoo_get_children2(client.zh, "/tree", 0, &names, &stat), ZOK);
    NEED(names.count == 2 && stat.numChildren == 2 && stat.cversion == 2);
    deallocate_String_vector(&names);
    CODE(zoo_get_children(client.zh, "/none", 0, &names), ZNONODE);
    return NULL;
}

static const char *deletion(void)
{
    CODE(zoo_delete(client.zh, "/tree", -1), ZNOTEMPTY);
    CODE(zoo_delete(client.zh, "/tree/a", 3), ZBADVERSION);
    CODE(zoo_delete(client.zh, "/tree/a", 0), ZOK);
    CODE(zoo_delete(client.zh, "/tree/a", -1), ZNONODE);
    NEED(missing(client.zh, "/tree/a"));
    return NULL;
}

typedef struct { volatile int done; int code; char value[100]; } synced_t;

static void on_synced(int code, const char *value, const void *context)
{
    synced_t *synced = (synced_t *)context;
    synced->code = code;
    strncpy(synced->value, value ? value : "", sizeof synced->value - 1);
    __sync_synchronize();
    synced->done = 1;
}

static const char *sync_answers(void)
{
    static synced_t synced;
    CODE(zoo_async(client.zh, "/data", on_synced, &synced), ZOK);
    EVENTUALLY(synced.done);
    CODE(synced.code, ZOK);
    TEXT(synced.value, "/data");
    return NULL;
}

static const char *config_and_reconfig(void)
{
    char data[100];
    int length = sizeof data;
    session_t all;
    PASS(session_open(&all, getenv("ZK_HOSTS"), TIMEOUT_MS));  /* the client looks below the chroot, where there is none */
    CODE(zoo_getconfig(all.zh, 0, data, &length, NULL), ZOK);
    session_close(&all);
    NEED(length == 0);
    length = sizeof data;
    CODE(zoo_reconfig(client.zh, NULL, "2", NULL, -1, data, &length, NULL), -123 /* ZRECONFIGDISABLED */);
    CODE(zoo_exists(client.zh, "/", 0, NULL), ZOK);
    return NULL;
}

static volatile int many_made;

static void on_made(int code, const char *value, const void *expected)
{
    if (code == ZOK && strcmp(value, expected) == 0) {
        many_made++;
    }
}

static const char *many_at_once(void)
{
    static char paths[1000][20];
    CODE(create(client.zh, "/many", ZOO_PERSISTENT), ZOK);
    for (int i = 0; i < 1000; i++) {
        strcpy(paths[i], "/many/0000");
        for (int digit = 9, rest = i; rest > 0; digit--, rest /= 10) {
            paths[i][digit] = '0' + rest % 10;
        }
        CODE(zoo_acreate(client.zh, paths[i], NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, on_made, paths[i]), ZOK);
    }
    EVENTUALLY(many_made == 1000);
    return NULL;
}

void operations(void)
{
    check("create persistent, ephemeral, sequential, ephemeral sequential", four_modes);
    check("create container, with TTL, sequential with TTL", container_and_ttl);
    check("create2 tells the stat", create2_tells_the_stat);
    check("create refused: exists, no parent, below an ephemeral, bad path", create_refused);
    check("a container goes with its last child, a TTL znode with its time", vanishing);
    check("get and set, right and wrong version", get_and_set);
    check("null data is not empty data", null_and_empty_data);
    check("children, with stat", children);
    check("delete, and delete refused: missing, wrong version, children", deletion);
    check("sync", sync_answers);
    check("config is empty, reconfig refused, connection kept", config_and_reconfig);
    check("a thousand creates on their way at once", many_at_once);
}
