/* model.h — what heed.h calls heed_model, as the files of src/api see it. */
#ifndef API_MODEL_H
#define API_MODEL_H

#include <pthread.h>

#include "text/pages.h"

/* Only the thread that took a session may touch it. The pointers are NULL until its first use. */
struct session {
    struct engine *engine;
    struct translator *translator;
    struct pages *pages; /* around it */
    int busy;
};

struct heed_model {
    char *device, *isa;
    int n_thread;
    struct session *session; /* [n_session]; the first one's engine has what all share */
    int n_session;
    pthread_mutex_t lock; /* guards busy, and translator of sessions that are not */
    pthread_cond_t freed;
};

/* Waits for a session if need be. progress may be NULL; HEED_ECANCELLED if it asks to stop. */
int model_take_session(struct heed_model *model, struct session **taken, heed_progress *progress,
                       void *context, struct err *err);
void model_give_session(struct heed_model *model, struct session *session);

#endif
