/* extras.h — what a model says besides translations: links, given translations' scores, attention.
 *
 * Forced passes of one sentence each, by the thread that runs the model, between two steps. The
 * aligner is made when first needed and kept; the others are made for one pass and freed. Results
 * go to the task. An error of the backend is HEED_ENOMEM, HEED_EDEVICE or the like; what the text
 * is to blame for is HEED_ELIMIT. */
#ifndef SERVE_EXTRAS_H
#define SERVE_EXTRAS_H

#include "serve/task.h"

struct extras;
struct extras *extras_new(const struct task_facts *facts, const struct align_options *align);
void extras_free(struct extras *extras);

int extras_link(struct extras *extras, struct task *task, struct part *part, struct err *err);
int extras_score(struct extras *extras, struct task *task, int document, struct err *err);
int extras_attend(struct extras *extras, struct task *task, const struct part *part,
                  struct err *err);

#endif
