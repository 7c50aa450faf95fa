/* ranks.c — see ranks.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "cli/ranks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/plugin.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "train/agree.h"
#include "train/facts.h"

const char *const transport_names[] = {"auto", "mpi", "nccl", NULL};
enum { AUTO, MPI, NCCL };

/* Set for ranks that heed has started itself. */
static const char by_heed[] = "HEED_STARTED_RANKS";

static char **command;
void ranks_command(char **argv) { command = argv; }

/* ---- who started this? ----------------------------------------------------------------------- */

/* Open MPI's mpirun and srun --mpi=pmix set PMIX_RANK; srun without it starts strangers. */
int ranks_started(struct err *err) {
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK")) return 1;
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (!getenv("SLURM_PROCID") || !tasks || atoi(tasks) < 2) return 0;
    return err_set(err, HEED_ECONFIG,
                   "srun started %.20s processes that cannot find each other; give it --mpi=pmix",
                   tasks);
}

int ranks_first(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMIX_RANK");
    return !rank || strcmp(rank, "0") == 0;
}

static enum { NOT_AGREED, SPEAKER, SPOKEN_FOR } part; /* of ranks_agree */
int ranks_speaks(enum heed_status code) {
    enum { OTHERS_TIME = 5, FIRST_TIME = 1 };
    /* The first end is the end of all as mpirun sees it: it must be that of the one that speaks,
     * which has these seconds and needs none of them. */
    if (part == SPOKEN_FOR) sleep(OTHERS_TIME);
    if (part != NOT_AGREED) return part == SPEAKER;
    /* All are given the same words, as a rule: then the first one's end is the end of this one,
     * too, and it has a second for that. */
    if (code == HEED_EINVAL && !ranks_first()) sleep(FIRST_TIME);
    return 1;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* How mpirun should behave. Ranks give way while they wait, since they may be more than there are
 * cores; they are not bound to any, or two runs on a machine would both have its first. A
 * connection to another machine that dies should be noticed within seconds, which is not mpirun's
 * habit. */
static void set_up_mpirun(void) {
    static const char *const setting[][2] = {{"OMPI_MCA_plm", "isolated"},
                                             {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                             {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                             {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                             {"OMPI_MCA_oob_tcp_keepalive_time", "2"},
                                             {"OMPI_MCA_oob_tcp_keepalive_intvl", "1"},
                                             {"OMPI_MCA_oob_tcp_keepalive_probes", "2"}};
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++)
        setenv(setting[i][0], setting[i][1], 0);
    setenv(by_heed, "1", 1);
    /* It was heed that was asked to run as root. */
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
}

/* Becomes mpirun; returns only if that is not there. */
static void become_mpirun(int n) {
    enum { OWN_WORDS = 5 };
    char number[16], self[4096];
    int n_word = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    while (command[n_word]) n_word++;
    char **word = xcalloc((size_t)n_word + OWN_WORDS + 1, sizeof *word);
    snprintf(number, sizeof number, "%d", n);
    if (length > 0) self[length] = 0;
    char *own[OWN_WORDS] = {"mpirun", "--quiet", "-n", number, length > 0 ? self : command[0]};
    memcpy(word, own, sizeof own);
    memcpy(word + OWN_WORDS, command + 1, (size_t)(n_word - 1) * sizeof *word);
    set_up_mpirun();
    execvp(word[0], word);
    xfree(word);
}

static volatile sig_atomic_t caught;
static volatile pid_t launcher;
static int orderly;

/* Ranks that end in order are asked to, once; their mpirun is no part of the terminal's job. Where
 * it is, a signal from the terminal has reached it, too. */
static void pass_on(int number, siginfo_t *info, void *context) {
    (void)context;
    if (launcher > 0 && (orderly || info->si_code != SI_KERNEL))
        kill(launcher, orderly && !caught ? RANKS_STOP : number);
    caught = number;
}

static void watch_signals(void) {
    static const int watched[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++) sigaction(watched[i], &action, NULL);
}

/* Runs n ranks to their end: *status is mpirun's, as a shell would have it. */
static int run_once(int *status, int n, struct err *err) {
    enum { NOT_THERE = 127 };
    int state = 0;
    pid_t parent = getpid(), child = fork();
    if (child < 0) return err_set(err, HEED_EIO, "mpirun: cannot fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (orderly) setpgid(0, 0);
        if (getppid() == parent) become_mpirun(n);
        _exit(NOT_THERE);
    }
    launcher = child;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    launcher = 0;
    *status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (*status == NOT_THERE)
        return err_set(err, HEED_ECONFIG,
                       "ranks: mpirun cannot be started; is Open MPI installed (Debian: "
                       "openmpi-bin)?");
    return 0;
}

/* Was that a rank, or all of them, ended from outside? */
static int was_lost(int status) { return status == RANKS_LOST || status > 128; }

/* How many to start after n were lost. They are all of this machine, which is still there, so as
 * many again; unless they did not last, as when its memory is not enough for them. */
static int next_count(const struct ranks_job *job, int n, double lasted) {
    enum { SOON = 60 };
    if (lasted >= SOON) return n;
    int fewer = n - 1;
    while (fewer > 1 && job->valid && !job->valid(fewer)) fewer--;
    return max_int(fewer, 1);
}

int ranks_launch(const struct ranks_options *options, const struct ranks_job *job,
                 struct err *err) {
    int n = options->n, status = 0, rc = ranks_started(err);
    if (rc < 0) return rc;
    if (options->restarts && !n)
        return cli_usage(err, "--restarts: needs --ranks%s",
                         rc ? "; here mpirun or srun starts the ranks"
                            : ", which says how many to start");
    if (rc || !n) return 0;
    orderly = job->orderly;
    watch_signals();
    for (int again = 0;; again++) {
        double begin = clock_seconds();
        rc = run_once(&status, n, err);
        if (rc) return rc;
        if (caught) signals_end_by(caught);
        if (!was_lost(status)) exit(status);
        if (again == options->restarts) exit(RANKS_LOST);
        n = next_count(job, n, clock_seconds() - begin);
        fprintf(stderr, "heed: starting again with %d rank%s (restart %d of %d)\n", n, PLURAL(n),
                again + 1, options->restarts);
    }
}

/* ---- being one of them ----------------------------------------------------------------------- */

static int wants_gpu(const struct backend_options *where) {
    if (!where->device || strcmp(where->device, "auto") == 0) return plugin_driver_present();
    return strncmp(where->device, "cuda", 4) == 0;
}

/* Ranks of a machine that may run on the same CPUs share them; those that somebody has bound keep
 * what they have. */
static void share_cpus(struct comm *comm, struct backend_options *where) {
    struct seat {
        char host[64];
        cpu_set_t cpus;
    } mine = {0}, *all = xcalloc((size_t)comm->size, sizeof *all);
    int sharing = 0;
    gethostname(mine.host, sizeof mine.host - 1);
    sched_getaffinity(0, sizeof mine.cpus, &mine.cpus);
    comm_gather(comm, all, &mine, sizeof mine);
    for (int r = 0; r < comm->size; r++)
        sharing += strcmp(all[r].host, mine.host) == 0 && CPU_EQUAL(&all[r].cpus, &mine.cpus);
    if (!where->n_thread) where->n_thread = max_int(pool_cpu_count() / max_int(sharing, 1), 1);
    xfree(all);
}

static void share_gpus(const struct comm *comm, struct backend_options *where) {
    static char name[24];
    int n = plugin_device_count();
    if (n < 1 || (where->device && strchr(where->device, ':'))) return;
    snprintf(name, sizeof name, "cuda:%d", comm->local_rank % n);
    where->device = name;
}

/* NCCL wants a GPU for every rank; where the launcher has said how many ranks this machine has, and
 * there are fewer, they share GPUs and go through the host. NCCL_HOSTID makes it believe
 * otherwise. */
static int gpus_suffice(void) {
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    return !local || getenv("NCCL_HOSTID") || atoi(local) <= plugin_device_count();
}

/* Ranks of different builds may not even mean the same by what they say: this comes first. */
static int same_program(struct comm *comm, struct err *err) {
    struct fact program;
    fact_program(&program);
    return ranks_agree(comm, facts_same(comm, &program, 1, err), err);
}

int ranks_open(struct comm **comm, const struct ranks_options *options,
               struct backend_options *where, struct err *err) {
    struct comm_options o = {.path = getenv("HEED_PLUGIN_PATH")};
    int rc = ranks_started(err), gpu = rc > 0 && wants_gpu(where), transport = options->transport;
    if (rc < 0) return rc;
    if (!rc) return comm_open(comm, &o, err);
    if (transport == NCCL && !gpu)
        return cli_usage(err, "--comm nccl: is for ranks with --device cuda");
    o.name = gpu && (transport == NCCL || (transport == AUTO && gpus_suffice())) ? "nccl" : "mpi";
    rc = comm_open(comm, &o, err);
    if (rc && gpu && transport == AUTO) {
        o.name = "mpi";
        rc = comm_open(comm, &o, err);
    }
    if (rc) return rc;
    /* A restart may have taken fewer. */
    if (options->n && options->n != (*comm)->size && !getenv(by_heed))
        return cli_usage(err, "--ranks: %d, but %d were started", options->n, (*comm)->size);
    if ((*comm)->size == 1) return 0;
    rc = same_program(*comm, err);
    if (rc) return comm_close(*comm), *comm = NULL, rc;
    share_cpus(*comm, where);
    if (gpu) share_gpus(*comm, where);
    return comm_check(*comm, err);
}

static void download(void *be, void *host, const void *device, size_t size) {
    backend_download(be, host, device, size);
}

static void upload(void *be, void *device, const void *host, size_t size) {
    backend_upload(be, device, host, size);
}

void ranks_attach(struct comm *comm, struct backend *be) {
    if (comm->size == 1) return; /* a queue that nobody asks for may have others beside it */
    struct comm_device device = {.ctx = be, .queue = backend_queue(be)};
    if (backend_device_memory(be)) {
        device.download = download;
        device.upload = upload;
    }
    comm_attach(comm, &device);
}

void ranks_lost(void *ctx, const struct watch_report *report) {
    const struct comm *comm = ctx;
    char text[WATCH_TEXT];
    /* Of rank 0 all the others know by themselves; one on each machine is enough. */
    int says = report->told ? 0 : report->rank > 0 || comm->rank == 1 || comm->local_rank == 0;
    if (says)
        fprintf(stderr, "heed: %s; the same command continues from the last checkpoint\n",
                watch_text(text, report));
    _exit(report->kind == WATCH_FAILED ? 1 : RANKS_LOST);
}

int ranks_agree(struct comm *comm, int rc, struct err *err) {
    int first = -1;
    rc = agree_all(comm, rc, &first, err);
    if (first >= 0) part = comm->rank == first ? SPEAKER : SPOKEN_FOR;
    return rc;
}
