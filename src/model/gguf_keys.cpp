#include "model/gguf_keys.h"

#include <cstring>
#include <limits>

#include "pith/error.hpp"

namespace pith {
namespace {

[[noreturn]] void fail_type(const std::string& key, const char* wanted) {
  throw Error(ErrorCode::bad_file, "key " + key + " is not " + wanted);
}

template <typename T>
T element(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

int64_t integer_element(const std::string& key, gguf_type type, const void* data, size_t index) {
  switch (type) {
    case GGUF_TYPE_UINT8:
      return element<uint8_t>(data, index);
    case GGUF_TYPE_INT8:
      return element<int8_t>(data, index);
    case GGUF_TYPE_UINT16:
      return element<uint16_t>(data, index);
    case GGUF_TYPE_INT16:
      return element<int16_t>(data, index);
    case GGUF_TYPE_UINT32:
      return element<uint32_t>(data, index);
    case GGUF_TYPE_INT32:
      return element<int32_t>(data, index);
    case GGUF_TYPE_INT64:
      return element<int64_t>(data, index);
    case GGUF_TYPE_UINT64: {
      const auto value = element<uint64_t>(data, index);
      if (value > uint64_t(std::numeric_limits<int64_t>::max())) fail_type(key, "in range");
      return int64_t(value);
    }
    default:
      fail_type(key, "an integer");
  }
}

}  // namespace

std::optional<std::string> GgufKeys::text(const std::string& key) const {
  const auto id = find(key);
  if (id < 0) return std::nullopt;
  if (gguf_get_kv_type(header_, id) != GGUF_TYPE_STRING) fail_type(key, "a string");
  return gguf_get_val_str(header_, id);
}

std::optional<double> GgufKeys::number(const std::string& key) const {
  const auto id = find(key);
  if (id < 0) return std::nullopt;
  switch (gguf_get_kv_type(header_, id)) {
    case GGUF_TYPE_FLOAT32:
      return gguf_get_val_f32(header_, id);
    case GGUF_TYPE_FLOAT64:
      return gguf_get_val_f64(header_, id);
    default:
      fail_type(key, "a floating-point number");
  }
}

std::optional<int64_t> GgufKeys::integer(const std::string& key) const {
  const auto id = find(key);
  if (id < 0) return std::nullopt;
  const auto type = gguf_get_kv_type(header_, id);
  if (type == GGUF_TYPE_STRING) fail_type(key, "an integer");
  if (type != GGUF_TYPE_ARRAY) {
    return integer_element(key, type, gguf_get_val_data(header_, id), 0);
  }
  const auto element_type = gguf_get_arr_type(header_, id);
  const auto n = gguf_get_arr_n(header_, id);
  if (n == 0 || element_type == GGUF_TYPE_STRING) fail_type(key, "an integer");
  const auto* data = gguf_get_arr_data(header_, id);
  const auto first = integer_element(key, element_type, data, 0);
  for (size_t i = 1; i < n; ++i) {
    if (integer_element(key, element_type, data, i) != first) {
      throw Error(ErrorCode::unsupported, "key " + key + " differs from layer to layer");
    }
  }
  return first;
}

std::optional<int64_t> GgufKeys::array_size(const std::string& key, gguf_type type) const {
  const auto id = find(key);
  if (id < 0) return std::nullopt;
  if (gguf_get_kv_type(header_, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(header_, id) != type) {
    throw Error(ErrorCode::bad_file, "key " + key + " is not an array of " + gguf_type_name(type));
  }
  return int64_t(gguf_get_arr_n(header_, id));
}

const void* GgufKeys::array_data(const std::string& key) const {
  return gguf_get_arr_data(header_, find(key));
}

std::string GgufKeys::array_text(const std::string& key, int64_t index) const {
  return gguf_get_arr_str(header_, find(key), size_t(index));
}

}  // namespace pith
