/* The lock of ZooKeeper's recipes page: each contender waits for the one before it. */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTENDERS 5
#define ROUNDS 10

static int inside, held;

static const char *wait_for_those_before(zhandle_t *zh, const char *mine)
{
    for (;;) {
        struct String_vector names;
        char before[100] = "";
        CODE(zoo_get_children(zh, "/lock", 0, &names), ZOK);
        for (int i = 0; i < names.count; i++) {
            if (strcmp(names.data[i], mine) < 0 && strcmp(names.data[i], before) > 0) {
                snprintf(before, sizeof before, "%s", names.data[i]);
            }
        }
        deallocate_String_vector(&names);
        if (before[0] == '\0') {
            return NULL;
        }
        char path[120];
        events_t *gone = malloc(sizeof *gone);  /* kept: the client may tell it of later changes of the session */
        events_init(gone);
        snprintf(path, sizeof path, "/lock/%s", before);
        int code = zoo_wexists(zh, path, note, gone, NULL);
        if (code == ZOK) {
            PASS(expect(gone, ZOO_DELETED_EVENT, path));
        } else {
            CODE(code, ZNONODE);
        }
    }
}

static const char *contend_with(zhandle_t *zh)
{
    for (int i = 0; i < ROUNDS; i++) {
        char mine[100];
        CODE(zoo_create(zh, "/lock/c-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, mine, sizeof mine), ZOK);
        PASS(wait_for_those_before(zh, mine + strlen("/lock/")));
        NEED(__sync_add_and_fetch(&inside, 1) == 1);
        __sync_add_and_fetch(&held, 1);
        __sync_sub_and_fetch(&inside, 1);
        CODE(zoo_delete(zh, mine, -1), ZOK);
    }
    return NULL;
}

static void *contend(void *unused)
{
    (void)unused;
    session_t session;
    const char *trouble = session_open(&session, hosts, TIMEOUT_MS);
    if (!trouble) {
        trouble = contend_with(session.zh);
        session_close(&session);
    }
    return trouble ? strdup(trouble) : NULL;
}

static const char *one_at_a_time(void)
{
    pthread_t contenders[CONTENDERS];
    char *trouble = NULL;
    CODE(create(client.zh, "/lock", ZOO_PERSISTENT), ZOK);
    for (int i = 0; i < CONTENDERS; i++) {
        NEED(pthread_create(&contenders[i], NULL, contend, NULL) == 0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        void *result;
        pthread_join(contenders[i], &result);
        trouble = result ? result : trouble;
    }
    PASS(trouble);
    NEED(held == CONTENDERS * ROUNDS);
    return NULL;
}

void locks(void)
{
    check("lock: five contenders, one at a time", one_at_a_time);
}
