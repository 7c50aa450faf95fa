/* prompt_input.c — see prompt_input.h. */
#define _XOPEN_SOURCE 700 /* wcwidth */
#include "cli/prompt_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "cli/signals.h"

enum {
    HISTORY_LINES = 1000,   /* kept; the file may have twice as many */
    HISTORY_LINE = 1 << 16, /* bytes: a longer one is not kept */
    HISTORY_BYTES = 1 << 22,
    KEYS = 4096, /* read at a time */
};

struct prompt_input {
    int typed, edited;
    struct feed *feed; /* of lines that are not edited */
    EditLine *el;
    HistoryW *history;
    char *path; /* of the history; NULL: none */
    int signal_fd;
    sigset_t before;
    char keys[KEYS]; /* [at, end) have not been given to the editor */
    size_t at, end;
    int ended; /* no more will come */
    wchar_t *prompt;
    char *text; /* the line */
    size_t room;
    unsigned flags; /* enum line_flags */
    uint64_t number;
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* Stops as if nobody had caught the signal, with the terminal as it was. */
static void suspend(struct prompt_input *in) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    el_wset(in->el, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* here it stops */
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    el_wset(in->el, EL_PREP_TERM, 1);
}

/* Draws the line anew in a window of another width, where terminals have folded it anew: from the
 * row that the prompt is now in. */
static void resize(struct prompt_input *in) {
    const LineInfoW *line = el_wline(in->el);
    int columns = 0, escaped = 0;
    for (const wchar_t *c = in->prompt; *c; c++)
        if (*c == L'\1')
            escaped = !escaped;
        else if (!escaped)
            columns += max_int(wcwidth(*c), 0);
    for (const wchar_t *c = line->buffer; c < line->cursor; c++) columns += max_int(wcwidth(*c), 1);
    el_resize(in->el);
    int rows = columns / progress_columns(STDOUT_FILENO);
    if (rows) printf("\033[%dA", rows);
    printf("\r\033[J");
    el_wset(in->el, EL_REFRESH);
}

static void answer_signal(struct prompt_input *in) {
    struct signalfd_siginfo info;
    if (read(in->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) return;
    if (info.ssi_signo == SIGTSTP) suspend(in);
    if (info.ssi_signo == SIGCONT) el_wset(in->el, EL_PREP_TERM, 1), el_wset(in->el, EL_REFRESH);
    if (info.ssi_signo == SIGWINCH) resize(in);
}

/* Waits for keys: 1, 0 at the end, -1 when a signal ends the waiting. */
static int more_keys(struct prompt_input *in) {
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                         {.fd = signals_fd(), .events = POLLIN},
                         {.fd = in->signal_fd, .events = POLLIN}};
    memmove(in->keys, in->keys + in->at, in->end - in->at);
    in->end -= in->at;
    in->at = 0;
    for (;;) {
        int n_ready = poll(p, 3, -1);
        if (signals_caught) return -1;
        if (n_ready < 0 && errno != EINTR) return 0;
        if (n_ready < 0) continue;
        if (p[2].revents) answer_signal(in);
        if (!p[0].revents) continue;
        ssize_t n = read(STDIN_FILENO, in->keys + in->end, KEYS - in->end);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return 0; /* EIO: the terminal has gone */
        in->end += (size_t)n;
        return 1;
    }
}

/* The editor asks for a character. A line that a signal ends is finished by newlines, however deep
 * in the editor the question comes from, and thrown away. */
static int next_key(EditLine *el, wchar_t *key) {
    struct prompt_input *in;
    uint32_t code = 0;
    int n = -1;
    el_wget(el, EL_CLIENTDATA, &in);
    for (;;) {
        size_t left = in->end - in->at;
        if (left) n = utf8_decode(&code, in->keys + in->at, left);
        /* What is ill-formed up to its end may be the beginning of a character. */
        if (left && (n > 0 || (size_t)-n < left || left >= 4 || in->ended)) break;
        int rc = more_keys(in);
        if (rc < 0) return *key = L'\n', 1;
        if (rc == 0 && left == 0) return 0;
        in->ended = rc == 0;
    }
    if (n < 0) in->flags |= LINE_REPLACED, code = 0xFFFD, n = -n;
    in->at += (size_t)n;
    *key = code == '\t' ? L' ' : (wchar_t)code; /* tables are pasted */
    return 1;
}

/* ---- history --------------------------------------------------------------------------------- */

static char *history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (state && *state == '/')
        path = path_join(state, "heed");
    else if (home && *home == '/')
        path = path_join(home, ".local/state/heed");
    if (!path) return NULL;
    char *file = dir_make(path, NULL) ? NULL : path_join(path, "history");
    xfree(path);
    return file;
}

static wchar_t *widen(const char *text, size_t size) {
    wchar_t *wide = xmalloc((size + 1) * sizeof *wide);
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int length = utf8_decode(&code, text + at, size - at);
        wide[n++] = length > 0 ? (wchar_t)code : 0xFFFD;
        at += (size_t)abs(length);
    }
    wide[n] = 0;
    return wide;
}

/* 0: the last line is the same. */
static int history_enter(struct prompt_input *in, const char *text, size_t size) {
    HistEventW event;
    wchar_t *wide = widen(text, size);
    int rc = history_w(in->history, &event, H_ENTER, wide);
    xfree(wide);
    return rc;
}

/* The end of the file, from the beginning of a line on; xfree it. NULL: there is none. */
static char *history_tail(const char *path, size_t *size, int *whole) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *tail = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t from = st.st_size > HISTORY_BYTES ? st.st_size - HISTORY_BYTES : 0;
        tail = xmalloc(HISTORY_BYTES);
        ssize_t n = pread(fd, tail, HISTORY_BYTES, from);
        char *lf = from && n > 0 ? memchr(tail, '\n', (size_t)n) : NULL;
        *size = n > 0 && (!from || lf) ? (size_t)n - (lf ? (size_t)(lf + 1 - tail) : 0) : 0;
        if (lf) memmove(tail, lf + 1, *size);
        *whole = from == 0;
    }
    if (fd >= 0) close(fd);
    return tail;
}

static void history_load(struct prompt_input *in) {
    size_t size = 0, from = 0;
    int whole = 1, n = 0;
    char *all = in->path ? history_tail(in->path, &size, &whole) : NULL, *lf;
    if (!all) return;
    for (size_t at = 0; at < size; at++) n += all[at] == '\n';
    for (int skip = n - HISTORY_LINES; skip > 0 && (lf = memchr(all + from, '\n', size - from));
         skip--)
        from = (size_t)(lf - all) + 1;
    if (!whole || n > 2 * HISTORY_LINES) file_write_all(in->path, all + from, size - from, NULL);
    for (; (lf = memchr(all + from, '\n', size - from)); from = (size_t)(lf - all) + 1)
        history_enter(in, all + from, (size_t)(lf - all) - from);
    xfree(all);
}

void prompt_input_remember(struct prompt_input *in, const char *text, size_t size) {
    if (!in->el || size == 0 || size > HISTORY_LINE || history_enter(in, text, size) == 0) return;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK; /* it may be a pipe */
    int fd = in->path ? open(in->path, flags, 0600) : -1;
    if (fd < 0) return;
    char *line = xmalloc(size + 1); /* in one piece, whoever else writes */
    memcpy(line, text, size);
    line[size] = '\n';
    ssize_t done = write(fd, line, size + 1);
    (void)done; /* a history that is not kept is no error */
    xfree(line);
    close(fd);
}

/* ---- the editor ------------------------------------------------------------------------------ */

static wchar_t *shown_prompt(EditLine *el) {
    struct prompt_input *in;
    el_wget(el, EL_CLIENTDATA, &in);
    return in->prompt;
}

/* Where it can: a terminal with a cursor, whose letters are UTF-8 whatever the locale says. */
static int can_edit(void) {
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0 && setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind_keys(EditLine *el) {
    static const wchar_t *const key[][2] = {
        {L"^R", L"em-inc-search-prev"},      {L"^W", L"ed-delete-prev-word"},
        {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[1~", L"ed-move-to-beg"},
        {L"\\e[4~", L"ed-move-to-end"},      {L"\\e[1;5C", L"em-next-word"},
        {L"\\e[1;5D", L"ed-prev-word"}};
    el_wset(el, EL_EDITOR, L"emacs");
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        el_wset(el, EL_BIND, key[i][0], key[i][1], NULL);
    el_source(el, NULL); /* ~/.editrc */
}

static int editor_open(struct prompt_input *in, struct err *err) {
    HistEventW event;
    sigset_t about;
    sigemptyset(&about);
    sigaddset(&about, SIGWINCH);
    sigaddset(&about, SIGTSTP);
    sigaddset(&about, SIGCONT);
    pthread_sigmask(SIG_BLOCK, &about, &in->before);
    in->signal_fd = signalfd(-1, &about, SFD_CLOEXEC);
    in->el = el_init("heed", stdin, stdout, stderr);
    in->history = history_winit();
    if (in->signal_fd < 0 || !in->el || !in->history)
        return err_set(err, HEED_EIO, "cannot set up the terminal: %s", strerror(errno));
    history_w(in->history, &event, H_SETSIZE, HISTORY_LINES);
    history_w(in->history, &event, H_SETUNIQUE, 1);
    el_wset(in->el, EL_CLIENTDATA, in);
    el_wset(in->el, EL_SIGNAL, 0);
    el_wset(in->el, EL_HIST, history_w, in->history);
    el_wset(in->el, EL_PROMPT_ESC, shown_prompt, L'\1');
    bind_keys(in->el);
    el_wset(in->el, EL_GETCFN, next_key);
    el_wset(in->el, EL_PREP_TERM, 1);
    in->path = history_path();
    history_load(in);
    return 0;
}

/* The line in UTF-8, without its newline. */
static void narrow(struct prompt_input *in, const wchar_t *wide, int n, struct feed_line *line) {
    size_t size = 0;
    while (n > 0 && (wide[n - 1] == L'\n' || wide[n - 1] == L'\r')) n--;
    if (4 * (size_t)n + 1 > in->room) in->text = xrealloc(in->text, in->room = 4 * (size_t)n + 1);
    for (int i = 0; i < n; i++)
        size += (size_t)utf8_encode(in->text + size, wide[i] ? (uint32_t)wide[i] : 0xFFFD);
    in->text[size] = 0;
    *line = (struct feed_line){.text = in->text,
                               .size = size,
                               .name = "line",
                               .number = in->number + 1,
                               .total = in->number,
                               .flags = in->flags,
                               .end = "\n"};
    in->number++;
}

static int edit_line(struct prompt_input *in, const char *prompt, struct feed_line *line,
                     struct err *err) {
    int n = 0;
    in->prompt = widen(prompt, strlen(prompt));
    in->flags = 0;
    const wchar_t *wide = el_wgets(in->el, &n);
    xfree(in->prompt);
    el_wset(in->el, EL_PREP_TERM, 1);
    if (signals_caught) return err_set(err, HEED_ECANCELLED, "stopped");
    if (!wide || n <= 0) return 0;
    narrow(in, wide, n, line);
    return 1;
}

static void editor_close(struct prompt_input *in) {
    if (in->el) el_end(in->el); /* the terminal is as it was */
    if (in->history) history_wend(in->history);
    if (in->signal_fd >= 0) close(in->signal_fd);
    pthread_sigmask(SIG_SETMASK, &in->before, NULL);
    xfree(in->text);
    xfree(in->path);
}

/* ---- all lines ------------------------------------------------------------------------------- */

static int feed_again(struct prompt_input *in, struct err *err) {
    static const char *const standard_input[] = {"-"};
    feed_close(in->feed);
    in->feed = NULL;
    return feed_open(&in->feed, standard_input, 1, NULL, signals_fd(), err);
}

int prompt_input_open(struct prompt_input **input, struct err *err) {
    struct prompt_input *in = xcalloc(1, sizeof *in);
    in->typed = isatty(STDIN_FILENO);
    in->edited = can_edit();
    in->signal_fd = -1;
    int rc = in->edited ? editor_open(in, err) : feed_again(in, err);
    if (rc) {
        prompt_input_close(in);
        in = NULL;
    }
    *input = in;
    return rc;
}

void prompt_input_close(struct prompt_input *in) {
    if (!in) return;
    if (in->edited) editor_close(in);
    feed_close(in->feed);
    xfree(in);
}

void prompt_input_drop(struct prompt_input *in) { in->at = in->end = 0; }

int prompt_input_typed(const struct prompt_input *in) { return in->typed; }

int prompt_input_next(struct prompt_input *in, const char *prompt, struct feed_line *line,
                      struct err *err) {
    if (in->edited) return edit_line(in, prompt, line, err);
    if (in->typed && isatty(STDOUT_FILENO)) {
        for (; *prompt; prompt++)
            if (*prompt != '\1') putchar(*prompt);
        fflush(stdout);
    }
    int n = feed_fill(in->feed, 1, err);
    if (n > 0) *line = *feed_lines(in->feed);
    if (n == HEED_ECANCELLED && in->typed) { /* behind the terminal's ^C */
        if (isatty(STDOUT_FILENO)) putchar('\n'), fflush(stdout);
        feed_again(in, NULL);
    }
    return n;
}
