/* Stays connected to a server that restarts without its state: see ../restarts.py. */
#include "script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile bool expired;

static void watch_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE) {
        expired = true;
    }
}

static int write_and_read(zhandle_t *zh, const char *path)
{
    char data[10];
    int length = sizeof data;
    int code = create(zh, path, ZOO_PERSISTENT);
    if (code != ZOK && code != ZNODEEXISTS) {
        return code;
    }
    code = set(zh, path, "y");
    return code == ZOK ? zoo_get(zh, path, 0, data, &length, NULL) : code;
}

/* A handle whose session expired is of no more use, so there is a new one for each session. */
int restarts(void)
{
    int timeout_ms = atoi(getenv("ZK_TIMEOUT_MS"));
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(0);
    for (;;) {
        int64_t session = 0;
        expired = false;
        zhandle_t *zh = zookeeper_init(getenv("ZK_HOSTS"), watch_session, timeout_ms, NULL, NULL, 0);
        if (!zh) {
            return 1;
        }
        while (!expired) {
            int code = write_and_read(zh, getenv("ZK_ROOT"));
            if (code != ZOK) {
                printf("error %s\n", zerror(code));
            } else if (zoo_client_id(zh)->client_id != session) {
                session = zoo_client_id(zh)->client_id;
                printf("works %" PRIx64 "\n", session);
            }
            pause_ms(100);
        }
        puts("lost");
        zookeeper_close(zh);
    }
}
