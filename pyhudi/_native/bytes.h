/* Big-endian loads and stores at any alignment, and the CRCs of HFile blocks.

   Header-only C because it needs compiler builtins and a per-function target attribute, which
   Cython cannot express.  cursor.pxd and hfile/block.pxd declare them for Cython. */

#ifndef PYHUDI_BYTES_H
#define PYHUDI_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PYHUDI_BIG16(v) (v)
#define PYHUDI_BIG32(v) (v)
#define PYHUDI_BIG64(v) (v)
#else
#define PYHUDI_BIG16(v) __builtin_bswap16(v)
#define PYHUDI_BIG32(v) __builtin_bswap32(v)
#define PYHUDI_BIG64(v) __builtin_bswap64(v)
#endif

#define pyhudi_likely(x) __builtin_expect(!!(x), 1)
#define pyhudi_prefetch(p) __builtin_prefetch((p), 0, 1)

static inline uint16_t pyhudi_load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return PYHUDI_BIG16(v);
}
static inline uint32_t pyhudi_load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return PYHUDI_BIG32(v);
}
static inline uint64_t pyhudi_load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return PYHUDI_BIG64(v);
}
static inline void pyhudi_store16(uint8_t *p, uint16_t v) {
    v = PYHUDI_BIG16(v);
    memcpy(p, &v, 2);
}
static inline void pyhudi_store32(uint8_t *p, uint32_t v) {
    v = PYHUDI_BIG32(v);
    memcpy(p, &v, 4);
}
static inline void pyhudi_store64(uint8_t *p, uint64_t v) {
    v = PYHUDI_BIG64(v);
    memcpy(p, &v, 8);
}

/* ---- CRC-32 (zlib) and CRC-32C (Castagnoli), reflected ------------------------------------ */

#define PYHUDI_POLY_CRC32 0xEDB88320u
#define PYHUDI_POLY_CRC32C 0x82F63B78u

/* Eight bytes a step; table[k][b] is the effect of byte b followed by k zero bytes. */
static inline void pyhudi_crc_fill(uint32_t table[8][256], uint32_t poly) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? poly : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
}

static inline uint32_t pyhudi_crc_sliced(const uint32_t table[8][256], const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][(low >> 8) & 0xff] ^ table[5][(low >> 16) & 0xff] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
              table[0][p[7]];
    }
    for (; n; p++, n--) crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define PYHUDI_CRC32C_HARDWARE 1
static inline int pyhudi_crc32c_in_hardware(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
__attribute__((target("sse4.2"))) static inline uint32_t
pyhudi_crc32c_hardware(const uint8_t *p, size_t n) {
    uint64_t crc = 0xffffffffu;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        crc = __builtin_ia32_crc32di(crc, v);
    }
    uint32_t c = (uint32_t)crc;
    for (; n; p++, n--) c = __builtin_ia32_crc32qi(c, *p);
    return ~c;
}
/* Four independent streams hide the instruction's latency of three cycles. */
__attribute__((target("sse4.2"))) static inline void
pyhudi_crc32c_hardware4(const uint8_t *p, size_t n, uint32_t out[4]) {
    uint64_t a = 0xffffffffu, b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t v, w, x, y;
        memcpy(&v, p + i, 8);
        memcpy(&w, p + n + i, 8);
        memcpy(&x, p + 2 * n + i, 8);
        memcpy(&y, p + 3 * n + i, 8);
        a = __builtin_ia32_crc32di(a, v);
        b = __builtin_ia32_crc32di(b, w);
        c = __builtin_ia32_crc32di(c, x);
        d = __builtin_ia32_crc32di(d, y);
    }
    for (; i < n; i++) {
        a = __builtin_ia32_crc32qi((uint32_t)a, p[i]);
        b = __builtin_ia32_crc32qi((uint32_t)b, p[n + i]);
        c = __builtin_ia32_crc32qi((uint32_t)c, p[2 * n + i]);
        d = __builtin_ia32_crc32qi((uint32_t)d, p[3 * n + i]);
    }
    out[0] = ~(uint32_t)a;
    out[1] = ~(uint32_t)b;
    out[2] = ~(uint32_t)c;
    out[3] = ~(uint32_t)d;
}
#else
#define PYHUDI_CRC32C_HARDWARE 0
static inline int pyhudi_crc32c_in_hardware(void) { return 0; }
static inline uint32_t pyhudi_crc32c_hardware(const uint8_t *p, size_t n) {
    (void)p, (void)n;
    return 0;
}
static inline void pyhudi_crc32c_hardware4(const uint8_t *p, size_t n, uint32_t out[4]) {
    (void)p, (void)n, (void)out;
}
#endif

#endif
