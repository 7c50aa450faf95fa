/* eval_report.h — what `heed eval` prints: scores in sacreBLEU's format, a table of systems, or
 * JSON lines. */
#ifndef CLI_EVAL_REPORT_H
#define CLI_EVAL_REPORT_H

#include "eval/eval.h"

void eval_print_text(const struct eval *eval);
void eval_print_json(const struct eval *eval);
void eval_print_segment(const struct eval *eval, const uint32_t *stat);      /* tab-separated */
void eval_print_segment_json(const struct eval *eval, const uint32_t *stat); /* one object */

#endif
