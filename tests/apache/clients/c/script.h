/* The parts of the script and what they share. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "checks.h"

#define TIMEOUT_MS 6000

extern char hosts[200];   /* through the proxy, with this script's root as chroot */
extern char direct[200];  /* past it */
extern session_t client, outside;

void operations(void);
void multi(void);
void permissions(void);
void watches(void);
void sessions(void);
void locks(void);
/* Instead of all of these. */
int restarts(void);
int conform(void);

/* Makes a persistent znode with the data "x". */
int create(zhandle_t *zh, const char *path, int mode);
bool missing(zhandle_t *zh, const char *path);
int set(zhandle_t *zh, const char *path, const char *data);

#endif
