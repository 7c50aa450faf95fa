/* crc32c.h — the Castagnoli checksum (polynomial 0x1EDC6F41, reflected), as in iSCSI, ext4 and
 * TensorBoard.
 *
 * crc32c(0, data, size) is the checksum of data; crc32c(c, more, n) continues the one that gave
 * c. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
