#include "vecsum.h"

#include <hip/hip_runtime.h>

namespace {

constexpr unsigned kBlock = 256;

__global__ void add(const float *a, const float *b, float *c, size_t count) {
    size_t i = static_cast<size_t>(blockIdx.x) * kBlock + threadIdx.x;
    if (i < count) c[i] = a[i] + b[i];
}

struct Buffer {
    float *data = nullptr;
    ~Buffer() {
        if (data) (void)hipFree(data);
    }
};

}  // namespace

const char *vecsum_version() { return VERSION; }

const char *vecsum_error(int code) { return hipGetErrorString(static_cast<hipError_t>(code)); }

int vecsum_devices(int *count) {
    *count = 0;
    return hipGetDeviceCount(count);
}

int vecsum_add(const float *a, const float *b, float *c, size_t count) {
    size_t bytes = count * sizeof(float);
    Buffer da, db, dc;
    for (Buffer *buffer : {&da, &db, &dc})
        if (hipError_t error = hipMalloc(&buffer->data, bytes)) return error;
    if (hipError_t error = hipMemcpy(da.data, a, bytes, hipMemcpyHostToDevice)) return error;
    if (hipError_t error = hipMemcpy(db.data, b, bytes, hipMemcpyHostToDevice)) return error;
    unsigned blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
    add<<<dim3(blocks), dim3(kBlock), 0, nullptr>>>(da.data, db.data, dc.data, count);
    if (hipError_t error = hipGetLastError()) return error;
    return hipMemcpy(c, dc.data, bytes, hipMemcpyDeviceToHost);
}
