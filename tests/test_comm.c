/* test_comm.c — ranks: a process alone, and how ranks on machines form levels. What several
 * processes do together is in test_ranks.c. */
#include "comm/transport.h"
#include "test.h"

TEST(alone) {
    struct comm *comm;
    struct err err = {0};
    ASSERT_OK(comm_open(&comm, NULL, &err), err);
    assert_string_equal(comm_name(comm), "none");
    assert_int_equal(comm->rank, 0);
    assert_int_equal(comm->size, 1);
    assert_int_equal(comm->local_size, 1);
    for (enum comm_level level = COMM_INSIDE; level <= COMM_ACROSS; level++) {
        assert_int_equal(comm_count(comm, level), 1);
        assert_int_equal(comm_index(comm, level), 0);
    }
    int one = 1, all = 0, row = 5;
    comm_bcast(comm, &one, sizeof one, 0);
    comm_move(comm, &one, sizeof one, 0, 0);
    comm_gather(comm, &all, &one, sizeof one);
    assert_int_equal(all, 1);
    comm_begin(comm);
    comm_exchange(comm, COMM_INSIDE, &row, &one, (size_t[]){sizeof one});
    comm_allgather(comm, COMM_ACROSS, &one, (size_t[]){sizeof one});
    comm_end(comm);
    assert_int_equal(row, 5);
    assert_int_equal(one, 1);
    assert_int_equal(comm->sent, 0);
    ASSERT_OK(comm_sync(comm, &err), err);
    comm_abort(comm, 1);
    comm_close(comm);
}

TEST(names) {
    struct comm *comm;
    struct err err = {0};
    ASSERT_ERR(comm_open(&comm, &(struct comm_options){.name = "carrier pigeon"}, &err), err,
               HEED_EINVAL, "'carrier pigeon' is not one of none, mpi, nccl");
    assert_null(comm);
    struct comm_abi other = COMM_ABI;
    other.version++;
    ASSERT_ERR(comm_abi_check(&other, "mpi", &err), err, HEED_EDEVICE,
               "mpi: the plug-in was built for another version");
}

/* `machine` names the machine of each rank; `inside` is what groups should have. */
static void check_levels(const char *machine, int inside) {
    int where[16], size = (int)strlen(machine);
    for (int r = 0; r < size; r++) where[r] = machine[r];
    for (int r = 0; r < size; r++) {
        struct comm comm = {.rank = r, .size = size};
        comm_set_levels(&comm, where);
        if (comm.inside != inside) fail_msg("%s: groups of %d", machine, comm.inside);
        for (enum comm_level level = COMM_INSIDE; level <= COMM_ACROSS; level++)
            assert_int_equal(comm_member(&comm, level, comm_index(&comm, level)), r);
        assert_int_equal(comm_count(&comm, COMM_INSIDE) * comm_count(&comm, COMM_ACROSS), size);
        assert_int_equal(comm_member(&comm, COMM_INSIDE, 0), r / inside * inside);
        assert_int_equal(comm_member(&comm, COMM_ACROSS, 0), r % inside);
    }
}

TEST(levels) {
    check_levels("a", 1);
    check_levels("aa", 2);
    check_levels("aaa", 1);
    check_levels("aaaa", 4);
    check_levels("abcd", 1);
    check_levels("aabb", 2);
    check_levels("aabbcc", 2);
    check_levels("abab", 1);
    check_levels("aab", 1);
    check_levels("abbb", 1);
    check_levels("aabbbb", 1);
    check_levels("aabbaa", 1);
    check_levels("aaabbb", 1);
    check_levels("aaaabbbb", 4);
}

/* One that never fails by itself: the error is kept, and the first wins. */
TEST(sticky) {
    struct comm *comm;
    struct err err = {0};
    ASSERT_OK(comm_open(&comm, NULL, &err), err);
    comm_fail(comm, HEED_EIO, "rank %d went away", 3);
    comm_fail(comm, HEED_EINVAL, "later");
    for (int again = 0; again < 2; again++) {
        err = (struct err){0};
        ASSERT_ERR(comm_sync(comm, &err), err, HEED_EIO, "rank 3 went away");
        ASSERT_ERR(comm_check(comm, &err), err, HEED_EIO, "rank 3 went away");
    }
    comm_close(comm);
}

TESTS(T(alone), T(names), T(levels), T(sticky))
