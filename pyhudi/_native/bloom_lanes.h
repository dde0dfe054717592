/* The chained Murmur2 of Apache Hudi's bloom filters, sixteen keys at a time.

   Each of a key's k hashes is seeded with the one before it, so one key is a chain of some 300
   dependent multiplications.  Sixteen keys in vector lanes hide their latency.  What does not
   depend on the seed (the mixing of the key's words, the odd bytes at its end) is done once.

   Header-only C because Cython supports neither vector types nor a function's target attribute. */

#ifndef PYHUDI_BLOOM_LANES_H
#define PYHUDI_BLOOM_LANES_H

#include <stdint.h>
#include <string.h>

#define PYHUDI_LANES 16
#define PYHUDI_LANE_WORDS 64 /* longest key in lanes: 4 * 64 + 3 bytes */

#ifndef PYHUDI_CLONES
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define PYHUDI_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef PYHUDI_CLONES
#define PYHUDI_CLONES
#endif
#endif

typedef uint32_t pyhudi_u8x __attribute__((vector_size(32)));
typedef int32_t pyhudi_i8x __attribute__((vector_size(32)));
typedef double pyhudi_d8x __attribute__((vector_size(64)));

#define PYHUDI_MURMUR 0x5bd1e995u

typedef union {
    pyhudi_u8x vector[2];
    uint32_t lane[PYHUDI_LANES];
} pyhudi_lanes;

/* Sixteen keys.  Unused lanes repeat a used one. */
typedef struct {
    pyhudi_lanes words[PYHUDI_LANE_WORDS]; /* raw when filled, mixed by prepare */
    pyhudi_lanes size;                     /* bytes */
    pyhudi_lanes count;                    /* whole words */
    pyhudi_lanes tail;                     /* the one to three bytes after the whole words */
    pyhudi_lanes tailed;                   /* all ones where there are such bytes */
    uint32_t count_min;
    uint32_t count_max;
} pyhudi_lane_keys;

static inline uint32_t pyhudi_little32(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* The bytes after the whole words, sign-extended and taken from the end of the key. */
static inline uint32_t pyhudi_murmur_tail(const uint8_t *end, int64_t left) {
    uint32_t tail = 0;
    if (left >= 3) tail ^= (uint32_t)(int32_t)(int8_t)end[-3] << 16;
    if (left >= 2) tail ^= (uint32_t)(int32_t)(int8_t)end[-2] << 8;
    if (left >= 1) tail ^= (uint32_t)(int32_t)(int8_t)end[-1];
    return tail;
}

/* One hash of one key, of any length. */
static inline int32_t pyhudi_murmur(const uint8_t *key, int64_t size, int32_t seed) {
    uint32_t h = (uint32_t)seed ^ (uint32_t)size;
    int64_t at = 0;
    for (; at + 4 <= size; at += 4) {
        uint32_t word = pyhudi_little32(key + at) * PYHUDI_MURMUR;
        word = (word ^ (word >> 24)) * PYHUDI_MURMUR;
        h = (h * PYHUDI_MURMUR) ^ word;
    }
    if (at < size) h = (h ^ pyhudi_murmur_tail(key + size, size - at)) * PYHUDI_MURMUR;
    h = (h ^ (h >> 13)) * PYHUDI_MURMUR;
    return (int32_t)(h ^ (h >> 15));
}

/* |hash rem bits| as in Java. */
static inline uint32_t pyhudi_bit_of(int32_t hash, int32_t bits) {
    int32_t rest = hash % bits;
    return (uint32_t)(rest < 0 ? -rest : rest);
}

static inline void pyhudi_lane_set(pyhudi_lane_keys *keys, int lane, const uint8_t *key,
                                   int64_t size) {
    uint32_t count = (uint32_t)(size >> 2);
    for (uint32_t i = 0; i < count; i++) keys->words[i].lane[lane] = pyhudi_little32(key + 4 * i);
    keys->size.lane[lane] = (uint32_t)size;
    keys->count.lane[lane] = count;
    keys->tail.lane[lane] = pyhudi_murmur_tail(key + size, size & 3);
    keys->tailed.lane[lane] = (size & 3) ? 0xFFFFFFFFu : 0;
}

/* Fill the lanes from `used` on with lane 0 and mix all words.  Words that a lane lacks have
   arbitrary values; they are masked in the rounds. */
PYHUDI_CLONES
static void pyhudi_lanes_prepare(pyhudi_lane_keys *keys, int used) {
    uint32_t low = keys->count.lane[0], high = low;
    for (int lane = used; lane < PYHUDI_LANES; lane++) {
        keys->size.lane[lane] = keys->size.lane[0];
        keys->count.lane[lane] = keys->count.lane[0];
        keys->tail.lane[lane] = keys->tail.lane[0];
        keys->tailed.lane[lane] = keys->tailed.lane[0];
    }
    for (int lane = 1; lane < PYHUDI_LANES; lane++) {
        uint32_t count = keys->count.lane[lane];
        low = count < low ? count : low;
        high = count > high ? count : high;
    }
    keys->count_min = low;
    keys->count_max = high;
    for (uint32_t i = 0; i < high; i++) {
        for (int half = 0; half < 2; half++) {
            pyhudi_u8x word = keys->words[i].vector[half] * PYHUDI_MURMUR;
            keys->words[i].vector[half] = (word ^ (word >> 24)) * PYHUDI_MURMUR;
        }
    }
}

/* Rounds of the chain for all lanes: seed in and out, bits[round].lane[lane] the bit each hash
   falls on.  The remainder is taken through doubles, exact but for whole multiples of `bits`,
   which may leave `bits` itself. */
PYHUDI_CLONES
static void pyhudi_lanes_rounds(const pyhudi_lane_keys *keys, int rounds, int32_t bits,
                                pyhudi_lanes *seed, pyhudi_lanes *out) {
    const double inverse = 1.0 / bits;
    pyhudi_u8x h[2] = {seed->vector[0], seed->vector[1]};
    for (int round = 0; round < rounds; round++) {
        uint32_t i = 0;
        for (int half = 0; half < 2; half++) h[half] ^= keys->size.vector[half];
        for (; i < keys->count_min; i++) {
            h[0] = (h[0] * PYHUDI_MURMUR) ^ keys->words[i].vector[0];
            h[1] = (h[1] * PYHUDI_MURMUR) ^ keys->words[i].vector[1];
        }
        for (; i < keys->count_max; i++) {
            for (int half = 0; half < 2; half++) {
                pyhudi_u8x has = (pyhudi_u8x)(keys->count.vector[half] > i);
                pyhudi_u8x next = (h[half] * PYHUDI_MURMUR) ^ keys->words[i].vector[half];
                h[half] = (next & has) | (h[half] & ~has);
            }
        }
        for (int half = 0; half < 2; half++) {
            pyhudi_u8x has = keys->tailed.vector[half];
            pyhudi_u8x next = (h[half] ^ keys->tail.vector[half]) * PYHUDI_MURMUR;
            pyhudi_u8x mixed = (next & has) | (h[half] & ~has);
            mixed = (mixed ^ (mixed >> 13)) * PYHUDI_MURMUR;
            h[half] = mixed ^ (mixed >> 15);
        }
        for (int half = 0; half < 2; half++) {
            pyhudi_i8x hash = (pyhudi_i8x)h[half];
            pyhudi_d8x quotient = __builtin_convertvector(hash, pyhudi_d8x) * inverse;
            pyhudi_i8x rest = hash - __builtin_convertvector(quotient, pyhudi_i8x) * bits;
            pyhudi_i8x sign = rest >> 31;
            rest = (rest ^ sign) - sign;
            out[round].vector[half] = (pyhudi_u8x)(rest & (rest != bits));
        }
    }
    seed->vector[0] = h[0];
    seed->vector[1] = h[1];
}

#endif
