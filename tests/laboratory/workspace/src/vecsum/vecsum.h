#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VECSUM_EXPORT __attribute__((visibility("default")))

/* The version, such as "1.2.0". */
VECSUM_EXPORT const char *vecsum_version(void);

/* Describes a result of the functions below. */
VECSUM_EXPORT const char *vecsum_error(int code);

/* Counts the GPUs. Returns 0, or a HIP error: 100 if there is none. */
VECSUM_EXPORT int vecsum_devices(int *count);

/* c[i] = a[i] + b[i] on the first GPU. */
VECSUM_EXPORT int vecsum_add(const float *a, const float *b, float *c, size_t count);

#ifdef __cplusplus
}
#endif
