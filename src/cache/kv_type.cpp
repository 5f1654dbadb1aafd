#include "cache/kv_type.h"

#include <ggml-cpu.h>

#include <cstring>

#include "base/simd.h"

namespace pith {

ggml_type to_ggml(KvType type) {
  switch (type) {
    case KvType::f32:
      return GGML_TYPE_F32;
    case KvType::f16:
      return GGML_TYPE_F16;
    case KvType::q8_0:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F32;
}

int kv_block(KvType type) { return int(ggml_blck_size(to_ggml(type))); }

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
  } else if (type == KvType::f16) {
    simd::widen(reinterpret_cast<const uint16_t*>(in), count, out);
  } else {
    ggml_get_type_traits(to_ggml(type))->to_float(in, out, count);
  }
}

}  // namespace pith
