/* The C boundary every dllm plugin crosses: descriptor, host table, entry point.
 *
 * A plugin is a shared object with one descriptor in an ELF note (section ".note.dllm", owner
 * "dllm", type 1) and one exported function, dllm_plugin_entry. dllm reads the descriptor before it
 * loads the file, so a plugin that does not fit is refused without running any of its code.
 *
 * Versioning: a host of ABI major M, minor m accepts plugins of major M and minor <= m. Minor grows
 * by appending fields and functions, guarded by struct_size; anything else is a new major.
 * What crosses: fixed-width integers, float, double, UTF-8 const char*, pointer + count, opaque
 * handles. Never: exceptions, C++ library types, FILE*, memory the other side must free.
 *
 * Compiles as C11 and as C++17 or later, needs only the C standard library.
 */
#ifndef DLLM_SDK_PLUGIN_ABI_H
#define DLLM_SDK_PLUGIN_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLLM_PLUGIN_ABI_MAJOR 1
#define DLLM_PLUGIN_ABI_MINOR 0
#define DLLM_PLUGIN_MAGIC "DLLMPLG" /* 7 characters and the terminator: 8 bytes */
#define DLLM_PLUGIN_NOTE_SECTION ".note.dllm"
#define DLLM_PLUGIN_NOTE_OWNER "dllm"
#define DLLM_PLUGIN_NOTE_TYPE 1
#define DLLM_PLUGIN_ENTRY_NAME "dllm_plugin_entry"
#define DLLM_PLUGIN_EXPORT __attribute__((visibility("default")))

/* dllm_plugin_descriptor.kind */
#define DLLM_PLUGIN_KIND_SAMPLER 1u
#define DLLM_PLUGIN_KIND_BACKEND 2u
#define DLLM_PLUGIN_KIND_MODEL 3u

/* All arrays inline: pointers in the file are not yet relocated when the host reads this. Strings
 * are zero-terminated UTF-8. */
typedef struct dllm_plugin_descriptor {
  char magic[8];
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t kind;
  uint32_t reserved; /* 0 */
  char id[32];       /* [a-z0-9_]+, what the user types: "llada" */
  char version[32];  /* the plugin's own version: "1.0.0" */
  char tag[192];     /* C++ tier (backends, models): exact build tag; samplers: empty */
  char summary[128]; /* one line for `dllm plugins` */
} dllm_plugin_descriptor;

/* The note as it lies in the file. */
typedef struct dllm_plugin_note {
  uint32_t owner_size; /* 5 */
  uint32_t descriptor_size;
  uint32_t type;
  char owner[8]; /* "dllm", padded with zeros */
  dllm_plugin_descriptor descriptor;
} dllm_plugin_note;

/* clang's AddressSanitizer would pad the note, as it does any global. */
#if defined(__clang__)
#define DLLM_PLUGIN_NOTE_UNPADDED __attribute__((no_sanitize("address")))
#else
#define DLLM_PLUGIN_NOTE_UNPADDED
#endif

/* Defines the note; use once in a plugin, at file scope. The strings are literals that fit their
 * array with the terminator. */
#define DLLM_PLUGIN_NOTE(kind_, id_, version_, tag_, summary_)                             \
  __attribute__((section(DLLM_PLUGIN_NOTE_SECTION), used, aligned(4)))                     \
  DLLM_PLUGIN_NOTE_UNPADDED static const dllm_plugin_note dllm_plugin_note_instance = {    \
      5u,                                                                                  \
      (uint32_t)sizeof(dllm_plugin_descriptor),                                            \
      DLLM_PLUGIN_NOTE_TYPE,                                                               \
      DLLM_PLUGIN_NOTE_OWNER,                                                              \
      {DLLM_PLUGIN_MAGIC, (uint32_t)sizeof(dllm_plugin_descriptor), DLLM_PLUGIN_ABI_MAJOR, \
       DLLM_PLUGIN_ABI_MINOR, kind_, 0u, id_, version_, tag_, summary_}}

/* Every fallible function returns one of these. */
typedef int32_t dllm_status;
#define DLLM_OK 0
#define DLLM_ERROR 1      /* the message says what, where, how to fix */
#define DLLM_BAD_OPTION 2 /* as DLLM_ERROR, and the user can correct it on the command line */

/* Filled by the callee on failure; owned by the caller. Zero-terminated UTF-8. */
typedef struct dllm_error {
  uint32_t struct_size;
  uint32_t reserved;
  char message[1024];
} dllm_error;

#define DLLM_LOG_DEBUG 0
#define DLLM_LOG_INFO 1
#define DLLM_LOG_WARNING 2
#define DLLM_LOG_ERROR 3

/* What the host offers a plugin. Lives as long as the process; once the Runtime that gave it is
 * gone, log does nothing. */
typedef struct dllm_host_v1 {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  void* context;
  /* [any thread] */
  void (*log)(void* context, int32_t level, const char* component, const char* message);
  /* [any thread] A host extension by name ("dllm.something/1"), or NULL. */
  const void* (*get_extension)(void* context, const char* name);
} dllm_host_v1;

/* [before anything else; once per Runtime of the process] Returns the kind's table (samplers: const
 * dllm_sampler_v1*; backends and models: the C++ factory), or NULL with a message. */
typedef const void* (*dllm_plugin_entry_fn)(const dllm_host_v1* host, dllm_error* error);
DLLM_PLUGIN_EXPORT const void* dllm_plugin_entry(const dllm_host_v1* host, dllm_error* error);

#ifdef __cplusplus
}
#endif
#endif
