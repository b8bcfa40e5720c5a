/* A program for `zoolet conform --client`: see ../conform.py. */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zhandle_t *zh;
static volatile int state;

static void watch_session(zhandle_t *handle, int type, int now, const char *path, void *context)
{
    (void)handle, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT) {
        state = now;
    }
}

static void ignore(zhandle_t *handle, int type, int now, const char *path, void *context)
{
    (void)handle, (void)type, (void)now, (void)path, (void)context;
}

/* A handle whose session expired is of no more use, so there is a new one for each session. */
static bool connects_again(void)
{
    int64_t deadline = now_ms() + 20000;
    if (zh) {
        zookeeper_close(zh);
    }
    state = 0;
    zh = zookeeper_init(getenv("ZOOKEEPER"), watch_session, 10000, NULL, NULL, 0);
    while (zh && state != ZOO_CONNECTED_STATE) {
        if (now_ms() > deadline) {
            return false;
        }
        pause_ms(20);
    }
    return zh && add_auth(zh, "digest", "conform:secret") == ZOK;
}

typedef int (*operation_t)(const char *path);

static int watch_data(const char *path)
{
    char data[10];
    int length = sizeof data;
    return zoo_wget(zh, path, ignore, NULL, data, &length, NULL);
}

static int watch_children(const char *path)
{
    struct String_vector names = {0};
    int code = zoo_wget_children(zh, path, ignore, NULL, &names);
    deallocate_String_vector(&names);
    return code;
}

static int watch_exists(const char *path)
{
    int code = zoo_wexists(zh, path, ignore, NULL, NULL);
    return code == ZNONODE ? ZOK : code;
}

static int work(const char *path)
{
    char ticket[200];
    int code = zoo_create(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, ticket, sizeof ticket);
    code = code == ZOK ? set(zh, "/app", "x") : code;
    return code == ZOK ? zoo_delete(zh, ticket, -1) : code;
}

static int read_all(const char *path)
{
    char child[200], *data = malloc(1 << 20);
    int length = 1 << 20;
    snprintf(child, sizeof child, "%s/data", path);
    int code = zoo_get(zh, child, 0, data, &length, NULL);
    struct String_vector names = {0};
    snprintf(child, sizeof child, "%s/children", path);
    code = code == ZOK ? zoo_get_children(zh, child, 0, &names) : code;
    deallocate_String_vector(&names);
    free(data);
    return code;
}

static void retry(operation_t operation, const char *path)
{
    int64_t deadline = now_ms() + 30000;
    int code;
    while ((code = operation(path)) != ZOK) {
        bool is_expired = zoo_state(zh) == ZOO_EXPIRED_SESSION_STATE;
        if (now_ms() > deadline || (is_expired && !connects_again())) {
            fprintf(stderr, "%s: %s\n", path, zerror(code));
            exit(1);
        }
        pause_ms(100);
    }
}

int conform(void)
{
    const char *scenario = getenv("ZOOKEEPER_SCENARIO");
    int duration_ms = atoi(getenv("ZOOKEEPER_SECONDS")) * 1000;
    zoo_set_debug_level(0);
    if (!connects_again()) {
        fputs("not connected\n", stderr);
        return 1;
    }
    create(zh, "/app", ZOO_PERSISTENT);
    create(zh, "/app/watched", ZOO_PERSISTENT);
    create(zh, "/app/lock", ZOO_PERSISTENT);
    retry(watch_data, "/app/watched");
    retry(watch_children, "/app/watched");
    retry(watch_exists, "/app/absent");
    if (strcmp(scenario, "many-watches") == 0) {
        char path[1000];
        for (int number = 0; number < 1300; number++) {
            snprintf(path, sizeof path, "/app/%0900d", number);
            retry(watch_exists, path);
        }
    } else if (strcmp(scenario, "large-replies") == 0 || strcmp(scenario, "empty-replies") == 0) {
        retry(read_all, getenv("ZOOKEEPER_PATH"));
    } else if (strcmp(scenario, "idle") == 0) {
        pause_ms(duration_ms);
    }
    for (int64_t end = now_ms() + duration_ms; now_ms() < end; pause_ms(100)) {
        retry(work, "/app/lock/ticket-");
    }
    zookeeper_close(zh);
    return 0;
}
