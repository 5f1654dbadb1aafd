#pragma once

#include <gguf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace pith::test {

/// Builds a GGUF file byte by byte, as wrong as a test wants it.
class GgufBytes {
 public:
  GgufBytes(uint32_t version, uint64_t tensors, uint64_t pairs) {
    bytes_ = "GGUF";
    put(version).put(tensors).put(pairs);
  }

  template <typename T>
  GgufBytes& put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  GgufBytes& text(std::string_view text) {
    put(uint64_t(text.size()));
    bytes_ += text;
    return *this;
  }
  GgufBytes& key(std::string_view name, uint32_t type) { return text(name).put(type); }
  GgufBytes& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type,
                    uint64_t offset) {
    text(name).put(uint32_t(shape.size()));
    for (const uint64_t size : shape) put(size);
    return put(type).put(offset);
  }
  /// Pads to the alignment and appends `size` bytes of tensor data.
  GgufBytes& data(size_t size, size_t alignment = GGUF_DEFAULT_ALIGNMENT) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + size, '\1');
    return *this;
  }

  std::string& string() { return bytes_; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

}  // namespace pith::test
