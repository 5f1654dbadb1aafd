#include "model/file_hash.h"

#include <gguf.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace pith {

namespace {

constexpr size_t kSamples = 256;
constexpr size_t kSampleBytes = 4096;

class Fnv1a {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) state_ = (state_ ^ uint64_t(b)) * 0x100000001b3U;
  }

  std::string hex() const {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string out;
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(state_ >> unsigned(shift)) & 15U];
    return out;
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace

std::string file_hash(const GgufFile& file) {
  const auto bytes = file.bytes();
  const uint64_t size = bytes.size();
  const size_t start = std::min<size_t>(gguf_get_data_offset(file.header()), bytes.size());
  const auto weights = bytes.subspan(start);
  Fnv1a hash;
  hash.add(std::as_bytes(std::span(&size, 1)));
  hash.add(bytes.first(start));
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t at = weights.size() / kSamples * i;
    hash.add(weights.subspan(at, std::min(kSampleBytes, weights.size() - at)));
  }
  file.release(weights);
  return hash.hex();
}

}  // namespace pith
