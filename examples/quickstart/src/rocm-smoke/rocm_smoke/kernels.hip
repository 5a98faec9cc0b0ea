// SPDX-License-Identifier: MIT
//
// Two kernels and a C interface around them. Every function returns 0 or a
// hipError_t; rocm_smoke_error_name() and rocm_smoke_error_message() describe it.
//
// The kernels take their indices and the barrier from compiler builtins, not
// from threadIdx and __syncthreads(): those need ROCm's device libraries, which
// in some distributions are older than the GPU.

#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kBlock = 256;
constexpr int kTile = 16;

__global__ __launch_bounds__(kBlock) void add(const float *a, const float *b, float *c,
                                              size_t count) {
    size_t i = static_cast<size_t>(__builtin_amdgcn_workgroup_id_x()) * kBlock +
               __builtin_amdgcn_workitem_id_x();
    if (i < count) c[i] = a[i] + b[i];
}

__device__ inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// c = a * b for square row-major matrices: one thread per element of c, both
// factors read through shared memory in tiles.
__global__ __launch_bounds__(kTile *kTile) void multiply(const float *a, const float *b, float *c,
                                                         int size) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    int x = __builtin_amdgcn_workitem_id_x();
    int y = __builtin_amdgcn_workitem_id_y();
    int column = static_cast<int>(__builtin_amdgcn_workgroup_id_x()) * kTile + x;
    int row = static_cast<int>(__builtin_amdgcn_workgroup_id_y()) * kTile + y;
    float sum = 0.0f;
    for (int start = 0; start < size; start += kTile) {
        size_t left = static_cast<size_t>(row) * size + start + x;
        size_t below = static_cast<size_t>(start + y) * size + column;
        tile_a[y][x] = row < size && start + x < size ? a[left] : 0.0f;
        tile_b[y][x] = column < size && start + y < size ? b[below] : 0.0f;
        barrier();
        for (int k = 0; k < kTile; ++k) sum += tile_a[y][k] * tile_b[k][x];
        barrier();
    }
    if (row < size && column < size) c[static_cast<size_t>(row) * size + column] = sum;
}

// The first error sticks; later calls are skipped.
struct Status {
    hipError_t error = hipSuccess;
    bool ok() const { return error == hipSuccess; }
    void operator()(hipError_t result) {
        if (ok()) error = result;
    }
};

struct Buffer {
    float *data = nullptr;
    ~Buffer() {
        if (data) (void)hipFree(data);
    }
};

struct Event {
    hipEvent_t handle = nullptr;
    ~Event() {
        if (handle) (void)hipEventDestroy(handle);
    }
};

// Copies a and b to the device, calls launch() once to warm up and then
// `repeats` times between two events, and copies c back. `seconds` becomes the
// mean duration of one launch.
template <typename Launch>
int run(int device, const float *a, const float *b, float *c, size_t count, int repeats,
        double *seconds, Launch launch) {
    if (!a || !b || !c || !seconds || count == 0 || repeats < 1) return hipErrorInvalidValue;
    size_t bytes = count * sizeof(float);
    Buffer da, db, dc;
    Event start, stop;
    Status status;
    status(hipSetDevice(device));
    for (Buffer *buffer : {&da, &db, &dc})
        if (status.ok()) status(hipMalloc(reinterpret_cast<void **>(&buffer->data), bytes));
    if (status.ok()) status(hipEventCreate(&start.handle));
    if (status.ok()) status(hipEventCreate(&stop.handle));
    if (status.ok()) status(hipMemcpy(da.data, a, bytes, hipMemcpyHostToDevice));
    if (status.ok()) status(hipMemcpy(db.data, b, bytes, hipMemcpyHostToDevice));
    // NaN everywhere, to detect elements that no thread wrote.
    if (status.ok()) status(hipMemset(dc.data, 0xff, bytes));
    for (int i = -1; i < repeats && status.ok(); ++i) {
        if (i == 0) status(hipEventRecord(start.handle, nullptr));
        launch(da.data, db.data, dc.data);
        status(hipGetLastError());
    }
    if (status.ok()) status(hipEventRecord(stop.handle, nullptr));
    if (status.ok()) status(hipEventSynchronize(stop.handle));
    float milliseconds = 0.0f;
    if (status.ok()) status(hipEventElapsedTime(&milliseconds, start.handle, stop.handle));
    if (status.ok()) status(hipMemcpy(c, dc.data, bytes, hipMemcpyDeviceToHost));
    *seconds = milliseconds / 1000.0 / repeats;
    return status.error;
}

}  // namespace

// A device for the Python side; the layout is part of the interface.
struct rocm_smoke_device {
    char name[256];
    char arch[256];  // as gcnArchName: gfx1151, or gfx90a:sramecc+:xnack-
    unsigned long long memory;  // bytes
};

EXPORT const char *rocm_smoke_error_name(int code) {
    return hipGetErrorName(static_cast<hipError_t>(code));
}

EXPORT const char *rocm_smoke_error_message(int code) {
    return hipGetErrorString(static_cast<hipError_t>(code));
}

// The number of devices; hipErrorNoDevice if there is none.
EXPORT int rocm_smoke_device_count(int *count) {
    if (!count) return hipErrorInvalidValue;
    *count = 0;
    return hipGetDeviceCount(count);
}

EXPORT int rocm_smoke_device_info(int device, rocm_smoke_device *out) {
    if (!out) return hipErrorInvalidValue;
    hipDeviceProp_t properties;
    hipError_t error = hipGetDeviceProperties(&properties, device);
    if (error != hipSuccess) return error;
    std::memset(out, 0, sizeof *out);
    std::strncpy(out->name, properties.name, sizeof out->name - 1);
    std::strncpy(out->arch, properties.gcnArchName, sizeof out->arch - 1);
    out->memory = properties.totalGlobalMem;
    return hipSuccess;
}

// c[i] = a[i] + b[i] for `count` elements.
EXPORT int rocm_smoke_add(int device, const float *a, const float *b, float *c, size_t count,
                          int repeats, double *seconds) {
    size_t blocks = (count + kBlock - 1) / kBlock;
    if (blocks > 0x7fffffff) return hipErrorInvalidValue;
    return run(device, a, b, c, count, repeats, seconds, [=](float *da, float *db, float *dc) {
        add<<<dim3(static_cast<unsigned>(blocks)), dim3(kBlock), 0, nullptr>>>(da, db, dc, count);
    });
}

// c = a * b for row-major matrices of size x size elements.
EXPORT int rocm_smoke_multiply(int device, const float *a, const float *b, float *c, int size,
                               int repeats, double *seconds) {
    if (size < 1 || size > 32768) return hipErrorInvalidValue;
    unsigned tiles = static_cast<unsigned>((size + kTile - 1) / kTile);
    size_t count = static_cast<size_t>(size) * size;
    return run(device, a, b, c, count, repeats, seconds, [=](float *da, float *db, float *dc) {
        multiply<<<dim3(tiles, tiles), dim3(kTile, kTile), 0, nullptr>>>(da, db, dc, size);
    });
}
