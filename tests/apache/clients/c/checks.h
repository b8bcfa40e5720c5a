/* Checks, waiting, and the proxy's control port. */
#ifndef CHECKS_H
#define CHECKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper.h>

#define PATIENCE_MS 10000

/* A check is a function that returns what was wrong, or NULL. */
typedef const char *(*check_fn)(void);
void check(const char *what, check_fn body);
int failed_checks(void);
const char *wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define NEED(so) \
    do { \
        if (!(so)) return wrong("line %s:%d: not so: %s", __FILE_NAME__, __LINE__, #so); \
    } while (0)
#define CODE(call, expected) \
    do { \
        int code_ = (call); \
        if (code_ != (expected)) \
            return wrong("line %s:%d: %s is %s, expected %s", __FILE_NAME__, __LINE__, #call, zerror(code_), zerror(expected)); \
    } while (0)
#define TEXT(got, expected) \
    do { \
        if (strcmp((got), (expected)) != 0) \
            return wrong("line %s:%d: got %s, expected %s", __FILE_NAME__, __LINE__, (got), (expected)); \
    } while (0)
#define EVENTUALLY(condition) \
    do { \
        int64_t deadline_ = now_ms() + PATIENCE_MS; \
        while (!(condition)) { \
            if (now_ms() > deadline_) return wrong("line %s:%d: still not so: %s", __FILE_NAME__, __LINE__, #condition); \
            pause_ms(20); \
        } \
    } while (0)
/* For helpers that are themselves written like checks. */
#define PASS(call) \
    do { \
        const char *wrong_ = (call); \
        if (wrong_) return wrong_; \
    } while (0)

int64_t now_ms(void);
void pause_ms(int ms);

/* Has the proxy obey a command; false if it does not. */
bool control(const char *command);

/* How many ids every session has beside its address. */
int identities(void);

/* What a watcher was told, in order. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    int taken, told;
    struct { int type, state; char path[200]; } event[200];
} events_t;

void events_init(events_t *events);
void note(zhandle_t *zh, int type, int state, const char *path, void *events);
const char *expect(events_t *events, int type, const char *path);
const char *await_state(events_t *events, int state);
bool quiet(events_t *events);
void forget(events_t *events);

/* A client with what its session went through. */
typedef struct {
    zhandle_t *zh;
    events_t events;
} session_t;

/* zookeeper_init over TLS or with SASL, as this run wants it. */
zhandle_t *init(const char *hosts, int timeout_ms, const clientid_t *id, events_t *events);
const char *session_open(session_t *session, const char *hosts, int timeout_ms);
void session_close(session_t *session);
int64_t session_id(const session_t *session);
/* Adds auth and waits for the answer's code. */
int add_auth(zhandle_t *zh, const char *scheme, const char *credential);

#endif
