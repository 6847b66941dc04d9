/* SPDX-License-Identifier: Apache-2.0
 *
 * The WebGPU backend's own interfaces, file by file. Public surface: nibble/device.h through the backend table, and
 * nibble/webgpu.h. Locking: a device and all that hangs on it is used by one thread at a time (nibble/device.h); only
 * the members under a mutex are touched by Dawn's callbacks, which may come on any thread.
 */
#ifndef NIB_WEBGPU_WGPU_H
#define NIB_WEBGPU_WGPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <webgpu/webgpu.h>

#include "backend/backend.h"
#include "backend/webgpu/dawn.h"
#include "nibble/webgpu.h"

typedef struct nib_wgpu_device nib_wgpu_device;
typedef struct nib_wgpu_copy nib_wgpu_copy;
typedef struct nib_wgpu_pipeline nib_wgpu_pipeline;
typedef struct nib_wgpu_call nib_wgpu_call;

#define NIB_WGPU_DEFAULT_TIMEOUT_MS 120000u

/* "text" as the API wants it, and the way back, truncated to fit. */
WGPUStringView nib_wgpu_text(const char *text);
void nib_wgpu_copy_text(WGPUStringView from, char *to, size_t to_bytes);

/* ---- sync.c: the one place that waits ---- */

/* The answer of one asynchronous question. It belongs half to the asker and half to the callback, so a question that
 * timed out may still be answered later. */
typedef struct nib_wgpu_wait {
    struct nib_wgpu_wait *next;
    struct nib_wgpu_sync *sync;
    atomic_int refs;
    atomic_bool done;
    int status;   /* of the callback's own status enum */
    int type;     /* WGPUErrorType, for error scopes */
    void *object; /* what was made; see nib_wgpu_wait_take */
    void (*discard)(void *object); /* for an object that comes after the asker gave up; NULL: nothing is made */
    uint64_t line, column; /* of a compiler's message */
    char message[1024];
} nib_wgpu_wait;

typedef struct nib_wgpu_sync {
    WGPUInstance instance;
    const nib_allocator *allocator;
    uint64_t timeout_ns;
    bool timed; /* the instance has TimedWaitAny */
    pthread_mutex_t lock;
    nib_wgpu_wait *pool; /* finished waits, for reuse */
    size_t outstanding;  /* waits that are not in the pool */
} nib_wgpu_sync;

void nib_wgpu_sync_init(nib_wgpu_sync *sync, WGPUInstance instance, const nib_allocator *allocator, bool timed);
void nib_wgpu_sync_free(nib_wgpu_sync *sync);
/* NULL when out of memory. Set `discard` before asking for an object. */
nib_wgpu_wait *nib_wgpu_wait_new(nib_wgpu_sync *sync);
/* Called by the callback: publish the answer and drop the callback's half. */
void nib_wgpu_wait_answer(nib_wgpu_wait *wait, int status, int type, void *object, WGPUStringView message);
/* Take the object out of a done wait. */
void *nib_wgpu_wait_take(nib_wgpu_wait *wait);
/* Drop the asker's half. */
void nib_wgpu_wait_drop(nib_wgpu_wait *wait);
/* Wait until the question is answered. errors: TIMEOUT (names `what`), DEVICE */
nib_status nib_wgpu_wait_for(nib_wgpu_sync *sync, WGPUFuture future, nib_wgpu_wait *wait, const char *what,
                             nib_error *error);
/* Wait until every question has been answered, before what they refer to is freed; false when the time is over. */
bool nib_wgpu_sync_drain(nib_wgpu_sync *sync);

/* ---- error.c: what the device reported ---- */

/* The first bad news, kept until nib_webgpu_device_recover (a lost device: for good). */
typedef struct nib_wgpu_fault {
    pthread_mutex_t lock;
    atomic_int status; /* nib_status */
    char message[1024];
} nib_wgpu_fault;

void nib_wgpu_fault_init(nib_wgpu_fault *fault);
void nib_wgpu_fault_free(nib_wgpu_fault *fault);
void nib_wgpu_fault_set(nib_wgpu_fault *fault, nib_status status, WGPUStringView message);
void nib_wgpu_fault_clear(nib_wgpu_fault *fault); /* not a loss */
void nib_wgpu_on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *fault,
                      void *unused);
void nib_wgpu_on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *fault,
                       void *unused);
/* The sticky status of the device; asks a foreign device whether it is lost. errors: DEVICE_LOST, OUT_OF_MEMORY,
 * DEVICE */
nib_status nib_wgpu_check(nib_wgpu_device *device, nib_error *error);

/* Catch the errors of the calls up to the matching end. */
void nib_wgpu_scope_begin(nib_wgpu_device *device);
/* Fail with what was caught, in words: "<what>: <the device's message>". errors: OUT_OF_MEMORY (sticky too), DEVICE,
 * DEVICE_LOST, TIMEOUT */
nib_status nib_wgpu_scope_end(nib_wgpu_device *device, const char *what, nib_error *error);
/* Wait for all submitted work. */
nib_status nib_wgpu_wait_idle(nib_wgpu_device *device, nib_error *error);

/* ---- instance.c: finding an adapter ---- */

typedef struct nib_wgpu_adapter {
    WGPUAdapter adapter;
    WGPUAdapterType type;
    WGPUBackendType backend;
    uint32_t vendor_id, device_id;
    char vendor[64], architecture[64], name[192], driver[192];
} nib_wgpu_adapter;

#define NIB_WGPU_MAX_ADAPTERS 16
typedef struct nib_wgpu_adapters {
    nib_wgpu_adapter items[NIB_WGPU_MAX_ADAPTERS]; /* best first */
    size_t count;
} nib_wgpu_adapters;

const char *nib_wgpu_backend_name(WGPUBackendType backend);  /* "Vulkan" */
const char *nib_wgpu_adapter_kind(WGPUAdapterType type);     /* "discrete" "integrated" "unknown" "software" */
nib_status nib_wgpu_instance_create(WGPUInstance *out, nib_error *error);
/* All adapters, one of each (vendor, device, name, backend); the null backend only when asked for. */
nib_status nib_wgpu_adapters_list(nib_wgpu_sync *sync, bool with_null, nib_wgpu_adapters *out, nib_error *error);
void nib_wgpu_adapters_free(nib_wgpu_adapters *adapters);
/* Index of the adapter that the options ask for. errors: NO_DEVICE (lists what there is) */
nib_status nib_wgpu_adapter_choose(const nib_wgpu_adapters *adapters, const nib_device_options *options,
                                   size_t *out, nib_error *error);

/* ---- caps.c: the capability record of a device ---- */

typedef struct nib_wgpu_feature {
    const char *name;
    WGPUFeatureName value;
    const char *needs; /* another feature without which it is not asked for; NULL: none */
} nib_wgpu_feature;

/* The limits asked for at the adapter's best value; all others stay at the defaults (format 8.1). */
#define NIB_WGPU_LIMIT_MAP(XX)                                                                     \
    XX(maxBufferSize)                                                                              \
    XX(maxStorageBufferBindingSize)                                                                \
    XX(maxStorageBuffersPerShaderStage)                                                            \
    XX(maxComputeWorkgroupStorageSize)                                                             \
    XX(maxComputeInvocationsPerWorkgroup)                                                          \
    XX(maxComputeWorkgroupSizeX)

/* The features of format D.2 that this implementation knows, in that order. */
#define NIB_WGPU_MAX_FEATURES 8
size_t nib_wgpu_features(nib_wgpu_feature out[NIB_WGPU_MAX_FEATURES]);
/* From the device, or, with device NULL, what a device of the adapter would have. */
nib_status nib_wgpu_caps_fill(nib_context *context, WGPUInstance instance, WGPUAdapter adapter, WGPUDevice device,
                              nib_caps **out, nib_error *error);

/* ---- cache.c: compiled pipelines on disk ---- */

typedef struct nib_wgpu_blobs {
    nib_dawn_cache callbacks;
    char *directory;
    size_t directory_bytes;
    atomic_uint loads, hits, stores; /* for tests and people */
} nib_wgpu_blobs;

nib_status nib_wgpu_blobs_open(nib_context *context, const char *directory, nib_wgpu_blobs **out, nib_error *error);
/* Keep a shader that failed, for people: writes it into the folder and its path to `path`. */
bool nib_wgpu_blobs_keep_text(const nib_wgpu_blobs *blobs, const char *text, char *path, size_t path_bytes);
void nib_wgpu_blobs_close(nib_context *context, nib_wgpu_blobs *blobs);

/* ---- layout.c: element forms ---- */

/* How host elements become GPU words (format 5.1, 7.2). */
typedef enum nib_wgpu_layout {
    NIB_WGPU_RAW,          /* the same bytes: float16, float32, 32-bit integers, int64, packed uint8 */
    NIB_WGPU_I8,           /* sign-extended to 32 bits */
    NIB_WGPU_I16,
    NIB_WGPU_U8,           /* zero-extended to 32 bits: uint8, bool */
    NIB_WGPU_I64_TO_I32,   /* checked */
    NIB_WGPU_I64_TO_U32,
    NIB_WGPU_I64_CLAMP_I32, /* saturating */
    NIB_WGPU_I64_CLAMP_U32,
} nib_wgpu_layout;

nib_wgpu_layout nib_wgpu_layout_of(const nib_plan_tensor *tensor);
/* Of a tensor without a port: widened unless `packed`. */
nib_wgpu_layout nib_wgpu_layout_plain(nib_dtype dtype, bool packed);
/* Bytes of one element on the GPU. */
size_t nib_wgpu_layout_bytes(nib_wgpu_layout layout, nib_dtype dtype);
/* Convert `count` elements, host to GPU form; `first` is the index of the first for messages. src at any alignment.
 * errors: REQUEST (a checked narrowing does not fit: names index and value) */
nib_status nib_wgpu_layout_store(nib_wgpu_layout layout, nib_dtype dtype, const void *src, size_t first, size_t count,
                                 void *dst, nib_error *error);
/* The way back; dst at any alignment. */
void nib_wgpu_layout_load(nib_wgpu_layout layout, nib_dtype dtype, const void *src, size_t count, void *dst);

/* ---- buffer.c: memory on the device ---- */

/* max(4, bytes rounded up to 4), the size of a buffer or binding (format 5.2); false on overflow. */
bool nib_wgpu_round(size_t bytes, size_t *out);
/* errors: LIMIT (over maxBufferSize: names label, bytes, limit), OUT_OF_MEMORY, DEVICE ... `mapped`: mapped at creation */
nib_status nib_wgpu_buffer_create(nib_wgpu_device *device, const char *label, size_t bytes, WGPUBufferUsage usage,
                                  bool mapped, WGPUBuffer *out, nib_error *error);
/* Destroy and release; NULL is fine. */
void nib_wgpu_buffer_free(WGPUBuffer buffer);

/* Elements are converted through a block of this size. */
#define NIB_WGPU_BOUNCE_BYTES ((size_t)1 << 18)

/* ---- tensor.c: a tensor's copies on devices ---- */

/* A tensor's memory on one device in one layout. Linked into the tensor and into the device: whichever goes first takes
 * it along. */
struct nib_wgpu_copy {
    nib_wgpu_device *device;
    nib_tensor *tensor;
    nib_wgpu_copy *next_of_tensor;
    nib_wgpu_copy *previous, *next; /* of the device */
    nib_wgpu_layout layout;
    WGPUBuffer buffer;
    uint64_t offset;
    size_t bytes, rounded_bytes; /* of the elements; of the binding */
    bool foreign; /* the caller's buffer: released, never destroyed */
    bool filled;  /* holds the tensor's values */
    bool ahead;   /* a call wrote it after the host memory was last in step */
};

/* The copy for (device, layout); NULL when there is none. */
nib_wgpu_copy *nib_wgpu_copy_find(const nib_wgpu_device *device, const nib_tensor *tensor, nib_wgpu_layout layout);
/* The same, made when there is none: with the host memory's values if `fill`, else zeroed. `name` is for messages.
 * errors: REQUEST (no host memory to make it from, or the values are on the device in another layout; a checked
 * narrowing), LIMIT, OUT_OF_MEMORY, DEVICE ... */
nib_status nib_wgpu_copy_get(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout, const char *name,
                             bool fill, nib_wgpu_copy **out, nib_error *error);
/* Take a buffer over as the tensor's only memory. `foreign`: adds a reference instead. */
nib_status nib_wgpu_copy_adopt(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout, WGPUBuffer buffer,
                               uint64_t offset, bool foreign, nib_wgpu_copy **out, nib_error *error);
/* Set the values from host form. Queued: ordered before later submissions. */
nib_status nib_wgpu_copy_write(nib_wgpu_copy *copy, const void *data, nib_error *error);
/* A call writes it: its other copies are out of date, and host memory is behind. */
void nib_wgpu_copy_written(nib_wgpu_copy *copy);
/* Read the values in host form; waits. */
nib_status nib_wgpu_copy_read(nib_wgpu_copy *copy, void *data, nib_error *error);
/* A copy's device is closing: forget its copies. */
void nib_wgpu_copies_detach(nib_wgpu_device *device);
/* A buffer to read back through, and its contents, valid until it is unmapped. errors: TIMEOUT (free the buffer then) */
nib_status nib_wgpu_staging_create(nib_wgpu_device *device, size_t bytes, WGPUBuffer *out, nib_error *error);
nib_status nib_wgpu_staging_map(nib_wgpu_device *device, WGPUBuffer staging, size_t bytes, const unsigned char **data,
                                nib_error *error);

/* ---- pipeline.c: shader modules and pipelines ---- */

enum { NIB_WGPU_MAX_BINDINGS = 31 };

/* Bind group layouts are shared by all pipelines with the same kinds of bindings. */
typedef struct nib_wgpu_group_layout {
    struct nib_wgpu_group_layout *next;
    char kinds[NIB_WGPU_MAX_BINDINGS + 1]; /* 'r' 'w' 'u' in binding order */
    WGPUBindGroupLayout group;
    WGPUPipelineLayout pipeline;
} nib_wgpu_group_layout;

#define NIB_WGPU_MAX_PIPELINES 256 /* unused ones are dropped beyond this (format 8.3) */

/* Cached by (WGSL text, entry point, binding kinds): everything else, package, variant, constants and capabilities, only
 * decides what that text is, so equal text from two packages is compiled once. */
struct nib_wgpu_pipeline {
    nib_wgpu_pipeline *next;
    uint64_t hash;
    char *wgsl; /* freed with nib_text_free */
    char entry_point[64];
    const nib_wgpu_group_layout *layout;
    WGPUComputePipeline pipeline; /* NULL while it is being built */
    bool failed;
    unsigned refs;
    uint64_t last_use;
};

/* A pipeline that is being made. */
typedef struct nib_wgpu_build {
    nib_wgpu_pipeline *pipeline;
    nib_wgpu_wait *wait; /* NULL: it is there, or an earlier build makes it */
    WGPUFuture future;
    WGPUShaderModule module;
    const nib_plan *plan; /* for messages; NULL: WGSL of our own */
    size_t pass;
} nib_wgpu_build;

/* Start to build what plan pass `pass` needs; a shader error is reported here. */
nib_status nib_wgpu_build_start(nib_wgpu_device *device, const nib_plan *plan, size_t pass, nib_wgpu_build *out,
                                nib_error *error);
/* Wait for it. The pipeline is then the caller's to release. After a failure, here or above, there is nothing left to
 * release. Builds are finished in the order they were started. */
nib_status nib_wgpu_build_finish(nib_wgpu_device *device, nib_wgpu_build *build, nib_error *error);
/* A pipeline from WGSL of our own ("main", kinds as above). */
nib_status nib_wgpu_build_own(nib_wgpu_device *device, const char *name, const char *wgsl, const char *kinds,
                              nib_wgpu_pipeline **out, nib_error *error);
void nib_wgpu_pipeline_release(nib_wgpu_device *device, nib_wgpu_pipeline *pipeline);
void nib_wgpu_pipelines_free(nib_wgpu_device *device);

extern NIB_API const nib_backend nib_backend_webgpu;

/* ---- report.c: a shader error in terms of the template ---- */

typedef struct nib_wgpu_report {
    const nib_plan *plan; /* NULL: WGSL of our own */
    size_t pass;
    const char *wgsl;
    const char *message;
    uint64_t line, column; /* in the WGSL, 1-based; 0: unknown */
    const nib_wgpu_blobs *blobs; /* where the WGSL may be kept; NULL: nowhere */
} nib_wgpu_report;

nib_status nib_wgpu_report_shader(const nib_wgpu_report *report, nib_error *error);

/* ---- device.c ---- */

typedef struct nib_wgpu_slot { /* scratch memory that calls share: only one call uses it at a time on a queue */
    WGPUBuffer buffer;
    size_t bytes;
} nib_wgpu_slot;

struct nib_wgpu_device {
    nib_device common;
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    bool foreign; /* the caller's: released, never destroyed; no callbacks of ours are installed */
    nib_wgpu_sync sync;
    nib_wgpu_fault fault;
    nib_wgpu_blobs *blobs; /* NULL: no cache on disk */
    size_t max_buffer_bytes, max_binding_bytes, storage_alignment, uniform_alignment;
    uint32_t max_groups, max_storage_bindings;
    nib_wgpu_copy *copies;
    nib_wgpu_group_layout *layouts;
    nib_wgpu_pipeline *pipelines;
    size_t pipeline_count;
    uint64_t use_clock;
    nib_wgpu_pipeline *fill; /* sets a buffer to zero; made when first needed */
    unsigned char *bounce; /* [NIB_WGPU_BOUNCE_BYTES] conversion space; made when first needed */
    nib_wgpu_slot *slots;
    size_t slot_count;
    /* Tests replace the WGSL of a pass with what this returns (NULL: keep); freed with nib_text_free. */
    char *(*rewrite)(void *user, nib_context *context, const char *wgsl);
    void *rewrite_user;
};

/* The device as ours. errors: INVALID_ARGUMENT (another backend's) */
nib_status nib_wgpu_of(nib_device *device, nib_wgpu_device **out, nib_error *error);
nib_status nib_wgpu_open(nib_context *context, const nib_device_options *options, nib_device **out, nib_error *error);
void nib_wgpu_close(nib_device *device);

/* ---- call.c: prepare and release ---- */

/* One dispatch of a call. */
typedef struct nib_wgpu_step {
    nib_wgpu_pipeline *pipeline;
    WGPUBindGroup group; /* made by nib_wgpu_link */
    uint32_t dispatch[3];
    const nib_plan_pass *pass;     /* NULL: sets `intermediate` to zero */
    size_t intermediate;
    uint64_t uniforms_at;          /* of the pass's first uniform block in the call's uniform buffer */
    bool skipped; /* a view alias: it would copy a buffer onto itself (format 2.A.13) */
} nib_wgpu_step;

struct nib_wgpu_call {
    nib_call common;
    nib_wgpu_step *steps; /* the fills of zero_init scratch, then the plan's active passes */
    size_t step_count, fill_count;
    nib_wgpu_build *builds; /* [step_count], while the call is being prepared */
    size_t builds_started;
    WGPUBuffer uniforms;  /* all uniform blocks of all passes; NULL when there are none */
    WGPUBuffer *scratch;  /* [plan->intermediate_count] */
    bool *used;           /* [plan->tensor_count] an active pass binds it */
    nib_wgpu_copy **copies; /* [plan->tensor_count] of the used ones, when linked */
    bool linked;          /* copies and bind groups fit the bound tensors */
    bool waits;           /* a pass wants the queue to finish before the next (submitAfter) */
    struct nib_wgpu_split *split; /* the call is made of these pieces and has no steps of its own; NULL: whole */
    WGPUBuffer staging;
    size_t staging_bytes;
};

nib_status nib_wgpu_prepare(nib_device *device, const nib_plan *plan, const nib_call_options *options, nib_call **out,
                            nib_error *error);
void nib_wgpu_release(nib_call *call);
/* Where a uniform block of the step's pass stands in the call's uniform buffer. */
uint64_t nib_wgpu_uniform_offset(const nib_wgpu_call *call, const nib_wgpu_step *step, size_t index);

/* ---- link.c: bound tensors become bind groups ---- */

nib_status nib_wgpu_bind(nib_call *call, size_t index, nib_tensor *tensor, nib_error *error);
/* Make what is missing: device tensors for unbound outputs, copies of bound tensors, bind groups. `refresh`: send host
 * inputs again that are not constant. errors: REQUEST, ALIAS, LIMIT, OUT_OF_MEMORY, DEVICE ... */
nib_status nib_wgpu_link(nib_wgpu_call *call, bool refresh, nib_error *error);
void nib_wgpu_unlink(nib_wgpu_call *call);

/* ---- alias.c ---- */

/* A storage binding of a step: a byte range of a buffer. */
typedef struct nib_wgpu_range {
    WGPUBuffer buffer;
    uint64_t offset, size; /* rounded to 4 */
    bool written;
    nib_str name;
} nib_wgpu_range;

/* errors: ALIAS (names both, format 7.7 step 7) */
nib_status nib_wgpu_check_ranges(const nib_wgpu_range *ranges, size_t count, nib_str pass, nib_error *error);

/* ---- split.c: a weight larger than one binding ---- */

typedef struct nib_wgpu_split nib_wgpu_split;

/* How many pieces make every binding fit; false when the operator cannot be cut, or cutting does not help. */
bool nib_wgpu_find_split(const nib_wgpu_device *device, const nib_plan *plan, size_t *pieces);
nib_status nib_wgpu_split_create(nib_wgpu_call *call, size_t pieces, nib_error *error);
void nib_wgpu_split_free(nib_wgpu_call *call);
nib_status nib_wgpu_split_link(nib_wgpu_call *call, bool refresh, nib_error *error);
void nib_wgpu_split_unlink(nib_wgpu_call *call);
void nib_wgpu_split_record(const nib_wgpu_call *call, WGPUComputePassEncoder pass);
size_t nib_wgpu_split_count(const nib_wgpu_call *call); /* 1: not split */

/* ---- encode.c: dispatches ---- */

/* Record steps [first, end). */
void nib_wgpu_record(const nib_wgpu_call *call, WGPUComputePassEncoder pass, size_t first, size_t end);
nib_status nib_wgpu_run(nib_call *call, nib_error *error);
/* The tensors the call writes now hold values that host memory has not. */
void nib_wgpu_mark_written(nib_wgpu_call *call);

/* ---- time.c ---- */

nib_status nib_wgpu_time(nib_call *call, uint32_t repeats, nib_timing *out, nib_error *error);
nib_status nib_wgpu_ceilings(nib_device *device, nib_ceilings *out, nib_error *error);

#endif
