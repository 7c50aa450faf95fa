/* faults.h — disks that fail and processes that die, at a chosen call that changes the disk. */
#ifndef FAULTS_H
#define FAULTS_H

/* From now on the n-th such call does half of its work, or none, and ends the process with status
 * 9; with an error (ENOSPC, EIO) it and all later ones fail instead, except for removals. */
void faults_arm(int n, int error);
void faults_disarm(void);

#endif
