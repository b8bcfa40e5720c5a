#include "checks.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int failed;

void check(const char *what, check_fn body)
{
    const char *trouble = body();
    if (trouble) {
        failed++;
        printf("not ok %s: %s\n", what, trouble);
    } else {
        printf("ok %s\n", what);
    }
    fflush(stdout);
}

int failed_checks(void)
{
    return failed;
}

const char *wrong(const char *format, ...)
{
    static __thread char text[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void pause_ms(int ms)
{
    usleep(ms * 1000);
}

bool control(const char *command)
{
    char host[32], answer[64] = "";
    int port;
    sscanf(getenv("ZK_CONTROL"), "%31[^:]:%d", host, &port);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool obeyed = connect(fd, (struct sockaddr *)&address, sizeof address) == 0
        && dprintf(fd, "%s\n", command) > 0
        && read(fd, answer, sizeof answer - 1) > 0
        && strncmp(answer, "ok", 2) == 0;
    close(fd);
    return obeyed;
}

void events_init(events_t *events)
{
    memset(events, 0, sizeof *events);
    pthread_mutex_init(&events->mutex, NULL);
    pthread_cond_init(&events->more, NULL);
}

void note(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    events_t *events = context;
    pthread_mutex_lock(&events->mutex);
    int at = events->told % 200;
    events->event[at].type = type;
    events->event[at].state = state;
    snprintf(events->event[at].path, sizeof events->event[at].path, "%s", path ? path : "");
    events->told++;
    pthread_cond_broadcast(&events->more);
    pthread_mutex_unlock(&events->mutex);
}

/* The place of the next event, or -1 if none comes in time. */
static int next(events_t *events)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_MS / 1000;
    int at = -1, late = 0;
    pthread_mutex_lock(&events->mutex);
    while (events->taken == events->told && !late) {
        late = pthread_cond_timedwait(&events->more, &events->mutex, &deadline);
    }
    if (events->taken < events->told) {
        at = events->taken++ % 200;
    }
    pthread_mutex_unlock(&events->mutex);
    return at;
}

/* The next event of a znode is this one. (Changes of the session are told to every watcher.) */
const char *expect(events_t *events, int type, const char *path)
{
    int at;
    do {
        at = next(events);
        NEED(at >= 0);
    } while (events->event[at].type == ZOO_SESSION_EVENT);
    TEXT(events->event[at].path, path);
    NEED(events->event[at].type == type);
    return NULL;
}

/* Skips what comes before this state. */
const char *await_state(events_t *events, int state)
{
    int at;
    do {
        at = next(events);
        NEED(at >= 0);
    } while (events->event[at].type != ZOO_SESSION_EVENT || events->event[at].state != state);
    return NULL;
}

bool quiet(events_t *events)
{
    return events->taken == events->told;
}

void forget(events_t *events)
{
    pthread_mutex_lock(&events->mutex);
    events->taken = events->told;
    pthread_mutex_unlock(&events->mutex);
}

/* Debian's library has neither TLS nor SASL: see harness/clients.py for the one that has. */
zhandle_t *init(const char *hosts, int timeout_ms, const clientid_t *id, events_t *events)
{
#ifdef SECURE
    if (getenv("ZK_CA")) {
        char files[1000];
        snprintf(files, sizeof files, "%s,%s,%s", getenv("ZK_CA"), getenv("ZK_CERTIFICATE"), getenv("ZK_KEY"));
        return zookeeper_init_ssl(hosts, files, note, timeout_ms, id, events, 0);
    }
    if (getenv("ZK_USER")) {
        sasl_client_init(NULL);
        zoo_sasl_params_t sasl = {
            .service = "zookeeper", .host = "zk-sasl-md5", .mechlist = "DIGEST-MD5",
            .callbacks = zoo_sasl_make_basic_callbacks(getenv("ZK_USER"), NULL, getenv("ZK_SECRET_FILE")),
        };
        return zookeeper_init_sasl(hosts, note, timeout_ms, id, events, 0, NULL, &sasl);
    }
#endif
    return zookeeper_init(hosts, note, timeout_ms, id, events, 0);
}

const char *session_open(session_t *session, const char *hosts, int timeout_ms)
{
    events_init(&session->events);
    session->zh = init(hosts, timeout_ms, NULL, &session->events);
    NEED(session->zh != NULL);
    return await_state(&session->events, ZOO_CONNECTED_STATE);
}

void session_close(session_t *session)
{
    zookeeper_close(session->zh);
}

int64_t session_id(const session_t *session)
{
    return zoo_client_id(session->zh)->client_id;
}

int identities(void)
{
    const char *text = getenv("ZK_IDENTITIES");
    int lines = text && *text ? 1 : 0;
    for (; text && *text; text++) {
        lines += *text == '\n';
    }
    return lines;
}

typedef struct { int code; volatile bool done; } answer_t;

static void answered(int code, const void *context)
{
    answer_t *answer = (answer_t *)context;
    answer->code = code;
    __sync_synchronize();
    answer->done = true;
}

int add_auth(zhandle_t *zh, const char *scheme, const char *credential)
{
    static answer_t answers[50];
    static int used;
    answer_t *answer = &answers[used++];  /* never given back: the client may still answer at its end */
    int code = zoo_add_auth(zh, scheme, credential, strlen(credential), answered, answer);
    for (int64_t deadline = now_ms() + PATIENCE_MS; code == ZOK && !answer->done && now_ms() < deadline;) {
        pause_ms(5);
    }
    return code != ZOK ? code : answer->done ? answer->code : ZOPERATIONTIMEOUT;
}
