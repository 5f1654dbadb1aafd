#include "cache/kv_type.h"

#include <ggml-cpu.h>

#include <cstring>

namespace pith {

ggml_type to_ggml(KvType type) { return type == KvType::f32 ? GGML_TYPE_F32 : GGML_TYPE_F16; }

size_t kv_vector_bytes(KvType type, int count) { return ggml_row_size(to_ggml(type), count); }

void kv_from_float(KvType type, const float* in, std::byte* out, int count) {
  // An F32 value may follow an F16 key of odd length, so F32 is copied by bytes.
  if (type == KvType::f32) {
    std::memcpy(out, in, kv_vector_bytes(type, count));
  } else {
    ggml_get_type_traits_cpu(to_ggml(type))->from_float(in, out, count);
  }
}

void kv_to_float(KvType type, const std::byte* in, float* out, int count) {
  if (type == KvType::f32) {
    std::memcpy(out, in, kv_vector_bytes(type, count));
  } else {
    ggml_get_type_traits(to_ggml(type))->to_float(in, out, count);
  }
}

}  // namespace pith
