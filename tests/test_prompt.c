/* test_prompt.c — heed translate --interactive as somebody who types sees it, on a real terminal (a
 * pty), and as a pipe sees it. `heed translate` without it says what each translation must be.
 *
 * The terminal is looked at as a stream: what was typed, and what came out since. Deadlines are
 * long, waits are for what must come. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"

/* A model this random goes on and on; f32 and one thread are quick to open. */
#define QUICK "--max-extra 2 --min-length 3 --threads 1 --device cpu"

static const char *const line_1 = "the cat number 7 sat on mat 21";
static const char *const line_2 = "and so did dog 35.";

/* ---- heed ------------------------------------------------------------------------------------ */

static const char *heed_path(void) {
    static char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    assert_true(n > 0);
    path[n] = 0;
    *strrchr(path, '/') = 0; /* build/tests */
    strcpy(strrchr(path, '/'), "/heed");
    return path;
}

/* What a shell prints for the command, with $heed and what it may need; its status in *status. */
__attribute__((format(printf, 2, 3))) static const char *shell(int *status, const char *fmt, ...) {
    static char out[1 << 16];
    char command[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    setenv("heed", heed_path(), 1);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, sizeof out - 1, f);
    out[n] = 0;
    int rc = pclose(f);
    if (status) *status = WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc);
    return out;
}

/* The translation of one line, from the filter. */
static const char *translation(const char *dir, const char *line, const char *options) {
    static char text[4][8192];
    static int turn;
    char *to = text[turn++ % 4];
    int status;
    setenv("line", line, 1);
    const char *out = shell(
        &status, "printf '%%s\\n' \"$line\" | \"$heed\" translate --quiet --model %s " QUICK " %s",
        dir, options);
    assert_int_equal(status, 0);
    snprintf(to, sizeof text[0], "%s", out);
    to[strcspn(to, "\n")] = 0;
    assert_true(strlen(to) > 2);
    return to;
}

/* ---- a terminal ------------------------------------------------------------------------------ */

struct term {
    pid_t pid;
    int fd, slave; /* held open, to look at its modes when nobody else has it */
    struct termios before;
    char out[1 << 18];
    size_t n, seen; /* bytes that came; those that were waited for */
};

/* Starts a shell command on a terminal of 80 columns. Colours only where the test says so. */
__attribute__((format(printf, 2, 3))) static void term_open(struct term *t, const char *fmt, ...) {
    char command[2048];
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    t->n = t->seen = 0;
    char name[64];
    assert_int_equal(openpty(&t->fd, &t->slave, NULL, NULL, NULL), 0);
    assert_int_equal(tcgetattr(t->slave, &t->before), 0);
    close(t->fd);
    close(t->slave);
    t->pid = forkpty(&t->fd, name, &t->before, &size);
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        setenv("heed", heed_path(), 1);
        setenv("XDG_STATE_HOME", test_dir(), 1);
        setenv("HOME", test_dir(), 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    t->slave = open(name, O_RDWR | O_NOCTTY);
    assert_true(t->slave >= 0);
}

static void term_type(struct term *t, const char *keys) {
    for (size_t n = strlen(keys); n > 0;) {
        ssize_t done = write(t->fd, keys, n);
        if (done < 0 && errno == EINTR) continue;
        assert_true(done > 0);
        keys += done;
        n -= (size_t)done;
    }
}

/* Reads what comes within some seconds, at most until something does: 0 at the end. */
static int term_read(struct term *t, double seconds) {
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, (int)(1e3 * seconds)) <= 0) return 1;
    assert_true(t->n + 4096 < sizeof t->out);
    ssize_t n = read(t->fd, t->out + t->n, 4096);
    if (n <= 0) return 0;
    t->n += (size_t)n;
    t->out[t->n] = 0;
    return 1;
}

/* Waits for a text behind all that was waited for before. */
static void term_expect(struct term *t, const char *text) {
    double end = clock_seconds() + 30;
    for (;;) {
        t->out[t->n] = 0;
        const char *at = strstr(t->out + t->seen, text);
        if (at) {
            t->seen = (size_t)(at - t->out) + strlen(text);
            return;
        }
        if (clock_seconds() > end || !term_read(t, 0.2))
            fail_msg("no '%s' in what came:\n%s", text, t->out + t->seen);
    }
}

/* Until nothing has come for a while. */
static void term_settle(struct term *t) {
    for (size_t before = t->n + 1; before != t->n;) {
        before = t->n;
        term_read(t, 0.3);
    }
    t->seen = t->n;
}

/* Types a line and waits for what must come of it. */
static void term_ask(struct term *t, const char *line, const char *answer) {
    term_type(t, line);
    term_type(t, "\r");
    term_expect(t, "\n");
    term_expect(t, answer);
    term_expect(t, ">");
}

/* Waits for the end: the exit status, or 128 and the signal. The terminal must be as it was. */
static int term_close(struct term *t) {
    struct termios after;
    int status;
    double end = clock_seconds() + 30;
    while (waitpid(t->pid, &status, WNOHANG) == 0) {
        term_read(t, 0.05);
        if (clock_seconds() > end) fail_msg("it does not end:\n%s", t->out + t->seen);
    }
    for (size_t before = t->n + 1; before != t->n;) { /* what it said last */
        before = t->n;
        term_read(t, 0);
    }
    assert_int_equal(tcgetattr(t->slave, &after), 0);
    assert_int_equal(after.c_lflag, t->before.c_lflag);
    assert_int_equal(after.c_iflag, t->before.c_iflag);
    assert_int_equal(after.c_oflag, t->before.c_oflag);
    close(t->slave);
    close(t->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define PROMPT "exec env NO_COLOR=1 TERM=xterm \"$heed\" translate --interactive " QUICK " --model "

/* ---- conversation ---------------------------------------------------------------------------- */

TEST(answers_and_ends) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    const char *one = translation(dir, line_1, ""), *two = translation(dir, line_2, "");
    assert_string_not_equal(one, two);
    term_open(&t, PROMPT "%s", dir);
    term_expect(&t, ":help");
    term_expect(&t, "en-de> ");
    term_ask(&t, line_1, one);
    term_ask(&t, "", "en-de"); /* nothing to say to nothing */
    term_ask(&t, line_2, two);
    assert_null(strstr(t.out, "\033[2m"));
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
    assert_int_equal(t.out[t.n - 1], '\n');
}

TEST(commands_tell_more) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    term_open(&t, PROMPT "%s", dir);
    term_expect(&t, "> ");
    term_ask(&t, ":align", "nothing was translated yet");
    term_ask(&t, line_1, translation(dir, line_1, ""));
    /* the N best, as the filter has them */
    setenv("line", line_1, 1);
    char best[8192], *at = best;
    snprintf(best, sizeof best, "%s",
             shell(NULL,
                   "echo \"$line\" | \"$heed\" translate --quiet --model %s " QUICK
                   " --beam 6 --nbest 6 | sed 's/^0 ||| \\(.*\\) ||| .*/\\1/'",
                   dir));
    term_type(&t, ":alternatives 6\r");
    for (char *text; (text = strsep(&at, "\n")) && *text;) term_expect(&t, text);
    term_expect(&t, "> ");
    term_ask(&t, ":align", "\n  "); /* words_are_glossed looks closer */
    term_ask(&t, ":beam", "the beam is 4");
    term_ask(&t, ":beam 1", "the beam is 1");
    term_ask(&t, line_2, translation(dir, line_2, "--beam 1"));
    term_ask(&t, ":bem", "did you mean :beam?");
    term_ask(&t, ":D", "::D translates it");
    term_ask(&t, "::D", translation(dir, ":D", "--beam 1"));
    term_ask(&t, ":)", translation(dir, ":)", "--beam 1"));
    term_ask(&t, ":beam 0", ":beam: ");
    term_ask(&t, ":beam x", "'x' is not a whole number");
    term_ask(&t, ":beam 65", ":beam: ");
    term_ask(&t, ":swap now", "takes no value");
    term_ask(&t, ":h", ":alternatives [N]");
    term_type(&t, ":q\r");
    assert_int_equal(term_close(&t), 0);
}

/* Appends to text. */
static void add_word(char *text, const char *before, const char *word) {
    strcat(text, *text ? before : "");
    strcat(text, word);
}

/* What :align must show, from the words and links of the filter: "word = its words; ..." and the
 * words without a link. */
static void want_gloss(char *want, char *unlinked, const char *json) {
    json_t *root = json_loads(json, 0, NULL), *links = json_object_get(root, "alignment");
    json_t *src = json_object_get(root, "source_words"), *tgt = json_object_get(root, "words");
    char used[256] = {0};
    assert_true(json_array_size(src) > 5 && json_array_size(src) < sizeof used);
    assert_true(json_array_size(tgt) > 5 && json_array_size(links) > 5);
    for (size_t j = 0; j < json_array_size(tgt); j++) {
        char cell[512] = "";
        for (size_t k = 0; k < json_array_size(links); k++) {
            json_int_t i, to;
            assert_int_equal(json_unpack(json_array_get(links, k), "[II]", &i, &to), 0);
            if (to != (json_int_t)j) continue;
            add_word(cell, " ", json_string_value(json_array_get(src, (size_t)i)));
            used[i] = 1;
        }
        sprintf(want + strlen(want), "%s = %s; ", json_string_value(json_array_get(tgt, j)),
                *cell ? cell : "~");
    }
    for (size_t i = 0; i < json_array_size(src); i++)
        if (!used[i]) add_word(unlinked, " ", json_string_value(json_array_get(src, i)));
    json_decref(root);
}

/* The cells of two lines of words, one below the other; a cell begins where the first line has a
 * word. */
static void read_gloss(char *got, const char *words, const char *below) {
    size_t n = strlen(words);
    for (size_t at = strspn(words, " "); at < n;) {
        size_t end = at + strcspn(words + at, " "), next = end + strspn(words + end, " ");
        size_t size = next < n ? next - at : strlen(below + at);
        while (size && below[at + size - 1] == ' ') size--;
        sprintf(got + strlen(got), "%.*s = %.*s; ", (int)(end - at), words + at, (int)size,
                below + at);
        at = next;
    }
}

TEST(words_are_glossed) {
    static char want[8192], got[8192], unlinked[2048], text[1 << 16];
    const char *dir = model_dir("en-de", 1, 300);
    setenv("line", "the cat number 7 sat on mat 21, and so did dog 35, and the cat on the mat did",
           1);
    want_gloss(want, unlinked,
               shell(NULL,
                     "echo \"$line\" | \"$heed\" translate --quiet --json --alignment words "
                     "--model %s " QUICK,
                     dir));
    snprintf(text, sizeof text, "%s",
             shell(NULL,
                   "printf '%%s\n:align\n' \"$line\" | \"$heed\" translate --interactive "
                   "--model %s " QUICK " | sed 's/\302\267/~/g'",
                   dir));
    int rows = 0;
    char *at = strchr(text, '\n') + 1; /* behind the translation */
    for (char *words, *below; *at && strncmp(at, "  without", 9) != 0; rows++) {
        assert_non_null(words = strsep(&at, "\n"));
        assert_non_null(below = strsep(&at, "\n"));
        assert_true(strlen(words) <= 80 && strlen(below) <= 80);
        read_gloss(got, words, below);
    }
    assert_true(rows > 1);
    assert_string_equal(got, want);
    assert_true(strlen(unlinked) > 0);
    assert_string_equal(at + strlen("  without a link: "), strcat(unlinked, "\n"));
}

TEST(swaps_directions) {
    static struct term t;
    const char *there = model_dir("en-de", 1, 300), *back = model_dir("de-en", 2, 300);
    const char *one = translation(there, line_1, "");
    const char *other = translation(back, line_1, "--beam 1"),
               *wider = translation(back, line_1, "");
    assert_string_not_equal(one, other);
    assert_string_not_equal(other, wider);
    struct err err;
    struct model_notes notes = {.translate = json_pack("{s:i}", "beam", 1)};
    ASSERT_OK(modeldir_annotate(back, &notes, &err), err);
    model_notes_release(&notes);
    term_open(&t, PROMPT "%s", there);
    term_expect(&t, "> ");
    term_ask(&t, line_1, one);
    term_type(&t, ":swap\r");
    term_expect(&t, "\nde-en> ");
    term_ask(&t, line_1, other); /* with its own beam */
    term_ask(&t, ":swap", "en-de");
    term_ask(&t, line_1, one);
    term_ask(&t, ":beam 4", "4"); /* now it is ours */
    term_ask(&t, ":swap", "de-en");
    term_ask(&t, line_1, wider);
    term_ask(&t, ":swap", "en-de");
    shell(NULL, "mv %s %s.away", back, back);
    term_ask(&t, ":swap", "no model");
    term_ask(&t, line_1, one); /* the one that there is still works */
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
    /* By another name, elsewhere: the languages say it. */
    shell(NULL,
          "mkdir %s/installed; mv %s.away %s/installed/back; \"$heed\" describe %s/installed/back "
          "--source de --target en-GB; \"$heed\" describe %s --source en --target de",
          test_dir(), back, test_dir(), test_dir(), there);
    term_open(&t, "cd %s; HEED_MODELS=installed; export HEED_MODELS; " PROMPT "%s//", test_dir(),
              there); /* from where no other models are */
    term_expect(&t, "en-de> ");
    term_ask(&t, ":swap", "now with back");
    term_ask(&t, line_1, other);
    term_ask(&t, ":swap", "now with en-de"); /* back, although it is not from en-GB */
    term_ask(&t, ":swap", "now with back");
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

/* ---- keys ------------------------------------------------------------------------------------ */

TEST(edits_lines) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    const char *wide = "Größe ähnlich 日本 🎉 \u00e9";
    term_open(&t, "unset LANG LC_ALL LC_CTYPE; " PROMPT "%s", dir);
    term_expect(&t, "> ");
    /* erased, put in before, killed and typed again */
    term_ask(&t, "cat number 7 sat on mat 22\b1\001the \005", translation(dir, line_1, ""));
    term_ask(&t, "nothing\025and so did dog 35.", translation(dir, line_2, ""));
    /* letters of several bytes and columns are letters */
    term_type(&t, "Größe ähnlich 日本 🎉 🎉é");
    term_type(&t, "\033[D\177\005\r");
    term_expect(&t, translation(dir, wide, ""));
    term_expect(&t, "> ");
    /* what is no letter of any kind is replaced, and said to be */
    term_ask(&t, "the \xff cat", "U+FFFD");
    term_ask(&t, line_1, translation(dir, line_1, ""));
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

TEST(pasted_lines_are_lines) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    char paste[32768] = "";
    for (int i = 0; i < 500; i++) strcat(paste, i ? " the cat number 7 sat on mat 21" : "the");
    term_open(&t, PROMPT "%s", dir);
    term_expect(&t, "> ");
    term_type(&t, "the cat\tnumber 7 sat\ton mat 21\nand so did dog 35.\rthe mat");
    term_expect(&t, translation(dir, line_1, ""));
    term_expect(&t, translation(dir, line_2, ""));
    term_expect(&t, "> the mat");
    term_type(&t, "\r");
    term_expect(&t, translation(dir, "the mat", ""));
    term_expect(&t, "> ");
    /* far longer than the 4,096 bytes that a terminal holds, or the screen has */
    const char *want = translation(dir, paste, "");
    term_type(&t, paste);
    term_type(&t, "\r");
    term_expect(&t, want + strlen(want) - 40);
    term_expect(&t, "parts");
    term_expect(&t, "> ");
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

TEST(keeps_a_history) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/heed/history", test_dir());
    umask(0);
    for (int round = 0; round < 2; round++) {
        term_open(&t, PROMPT "%s", dir);
        term_expect(&t, "> ");
        term_ask(&t, round ? "\033[A\033[A" : line_1, translation(dir, line_1, ""));
        term_ask(&t, round ? "\022so did" : line_2, translation(dir, line_2, ""));
        term_ask(&t, "", "en-de");
        term_type(&t, "forgotten\003");
        term_type(&t, "\004");
        assert_int_equal(term_close(&t), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    char want[1024];
    snprintf(want, sizeof want, "%s\n%s\n%s\n%s\n", line_1, line_2, line_1, line_2);
    assert_string_equal(shell(NULL, "cat %s", path), want);
    /* One that has grown too long is cut, and its last lines are there. */
    shell(NULL, "seq -f 'old %%.0f' 3000 >%s", path);
    term_open(&t, PROMPT "%s", dir);
    term_expect(&t, "> ");
    term_type(&t, "\033[A");
    term_expect(&t, "old 3000");
    term_type(&t, "\003\004");
    assert_int_equal(term_close(&t), 0);
    assert_string_equal(shell(NULL, "wc -l <%s; sed -n 1p %s", path, path), "1000\nold 2001\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* No history is no error, nor is a pipe that nobody reads. */
    for (int i = 0; i < 2; i++) {
        shell(NULL, "cd %s; rm -rf heed; %s", test_dir(),
              i ? "touch heed" : "mkdir heed; mkfifo heed/history");
        term_open(&t, PROMPT "%s", dir);
        term_expect(&t, "> ");
        term_ask(&t, line_1, translation(dir, line_1, ""));
        term_ask(&t, "\033[A", translation(dir, line_1, ""));
        term_type(&t, "\004");
        assert_int_equal(term_close(&t), 0);
    }
}

TEST(follows_the_window) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    struct winsize size = {.ws_row = 24, .ws_col = 20};
    term_open(&t, PROMPT "%s", dir);
    term_expect(&t, "> ");
    term_type(&t, "the cat number 7");
    term_expect(&t, "number 7");
    ioctl(t.fd, TIOCSWINSZ, &size);
    term_expect(&t, "en-de> the cat numbe"); /* drawn anew */
    term_ask(&t, " sat on mat 21", translation(dir, line_1, ""));
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

/* ---- signals --------------------------------------------------------------------------------- */

TEST(ctrl_c_cancels) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    term_open(&t,
              "exec env NO_COLOR=1 TERM=xterm \"$heed\" translate --interactive --threads 1 "
              "--model %s",
              dir);
    term_expect(&t, "> ");
    for (int i = 0; i < 3; i++) { /* the line, however often */
        term_type(&t, "the cat");
        term_expect(&t, "cat");
        term_type(&t, i ? "\022sat\003" : "\003"); /* and in the middle of a search */
        term_expect(&t, "\n");
        term_expect(&t, "> ");
    }
    term_ask(&t, ":beam 64", "64");
    for (int i = 0; i < 2; i++) { /* a translation that takes long */
        for (int k = 0; k < 1000; k++) term_type(&t, "the cat number 7 sat on mat 21 ");
        term_type(&t, "\rthe mat\r"); /* what is typed ahead goes with it */
        term_expect(&t, "\n");
        size_t from = t.seen;
        usleep(300000);
        for (int k = 0; k < 5; k++) term_type(&t, "\003"), usleep(20000);
        term_expect(&t, "en-de> ");
        term_settle(&t);
        assert_null(strstr(t.out + from, " ms")); /* it did not come to its end */
    }
    term_ask(&t, ":beam 4", "4");
    assert_null(strstr(t.out, "the mat"));
    term_ask(&t, line_1, translation(dir, line_1, "--max-extra 50 --min-length 0"));
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

TEST(ends_by_signals) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    static const int number[] = {SIGTERM, SIGHUP};
    for (int i = 0; i < 2; i++) {
        term_open(&t, PROMPT "%s", dir);
        term_expect(&t, "> ");
        term_type(&t, "half a li");
        term_expect(&t, "li");
        kill(t.pid, number[i]);
        assert_int_equal(term_close(&t), 128 + number[i]);
    }
}

/* Ctrl-Z gives the shell its terminal back; fg comes back to the line. */
TEST(stops_and_goes_on) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    term_open(&t,
              "set -m; NO_COLOR=1 TERM=xterm \"$heed\" translate --interactive " QUICK
              " --model %s; stty -a | tr ' ;' '\\n\\n' | grep -x icanon; echo out; fg; echo rc $?",
              dir);
    term_expect(&t, "> ");
    term_type(&t, "the cat number 7");
    term_expect(&t, "number 7");
    term_type(&t, "\032");
    term_expect(&t, "icanon");
    term_expect(&t, "out");
    term_expect(&t, "en-de> the cat number 7");
    term_ask(&t, " sat on mat 21", translation(dir, line_1, ""));
    term_type(&t, "\004");
    term_expect(&t, "rc 0");
    assert_int_equal(term_close(&t), 0);
}

/* ---- other terminals, and none --------------------------------------------------------------- */

TEST(dumb_terminals_have_plain_lines) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    term_open(&t, "exec env TERM=dumb \"$heed\" translate --interactive " QUICK " --model %s", dir);
    term_expect(&t, "en-de> ");
    term_ask(&t, line_1, translation(dir, line_1, ""));
    /* The kernel throws away what is on its way to a terminal after it has sent the signal, be it
     * already the next prompt: an empty line asks for another. */
    term_type(&t, "forgotten\003");
    term_settle(&t);
    term_type(&t, "\n");
    term_expect(&t, "en-de> ");
    term_ask(&t, line_2, translation(dir, line_2, ""));
    term_ask(&t, ":bem 3", "did you mean");
    assert_null(strchr(t.out, '\033'));
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

TEST(colours_where_they_may_be) {
    static struct term t;
    const char *dir = model_dir("en-de", 1, 300);
    term_open(&t,
              "exec env -u NO_COLOR TERM=xterm \"$heed\" translate --interactive " QUICK
              " --model %s",
              dir);
    term_expect(&t, "\033[1men-de>\033[0m ");
    term_ask(&t, line_1, "\033[2m");
    term_ask(&t, ":align", "\033[36m");
    term_type(&t, "\004");
    assert_int_equal(term_close(&t), 0);
}

TEST(pipes_have_only_answers) {
    int status;
    const char *dir = model_dir("en-de", 1, 300);
    const char *one = translation(dir, line_1, ""), *two = translation(dir, line_2, "--beam 2");
    char want[8192];
    snprintf(want, sizeof want, "%s\nthe beam is 2\n%s\n", one, two);
    setenv("line", line_1, 1);
    setenv("other", line_2, 1);
#define PIPED "\"$heed\" translate --interactive " QUICK " --model %s 2>&1"
    const char *out =
        shell(&status, "printf '%%s\n\n:beam 2\n%%s' \"$line\" \"$other\" | " PIPED, dir);
    assert_string_equal(out, want);
    assert_int_equal(status, 0);
    out = shell(&status, "printf ':bem\n%%s\n' \"$line\" | " PIPED, dir);
    assert_int_equal(status, 2);
    assert_non_null(strstr(out, "heed: there is no command :bem (did you mean :beam?)"));
    assert_null(strstr(out, one));
    out = shell(&status, "printf ':q\n%%s\n' \"$line\" | " PIPED, dir);
    assert_int_equal(status, 0);
    assert_string_equal(out, "");
    out = shell(&status, PIPED " </dev/null", dir);
    assert_int_equal(status, 0);
    assert_string_equal(out, "");
    snprintf(want, sizeof want, "%s\n141\n", one); /* a reader that goes away */
    out = shell(&status,
                "yes \"$line\" | { " PIPED "; echo $? >%s/rc; } | sed 1q; "
                "while ! [ -s %s/rc ]; do sleep 0.1; done; cat %s/rc",
                dir, test_dir(), test_dir(), test_dir());
    assert_string_equal(out, want);
    static const char *const no[] = {"--json",     "--output x", "--nbest 2", "--scores",
                                     "--prefix x", "--stats",    "FILE",      "--look-ahead 3"};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        out = shell(&status, PIPED " %s </dev/null", dir, no[i]);
        assert_int_equal(status, 2);
        assert_non_null(strstr(out, "heed: --interactive"));
    }
}

TESTS(T(answers_and_ends), T(commands_tell_more), T(words_are_glossed), T(swaps_directions),
      T(edits_lines), T(pasted_lines_are_lines), T(keeps_a_history), T(follows_the_window),
      T(ctrl_c_cancels), T(ends_by_signals), T(stops_and_goes_on),
      T(dumb_terminals_have_plain_lines), T(colours_where_they_may_be), T(pipes_have_only_answers))
