#include "model/gguf_check.h"

#include <ggml.h>
#include <gguf.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "pith/error.hpp"

namespace pith {
namespace {

// Far above what real files hold; they bound the time and memory a hostile file can take.
constexpr uint64_t kMaxKeyValues = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 16;
constexpr uint64_t kMaxArray = 1 << 26;
constexpr uint64_t kMaxString = 1 << 26;
constexpr uint64_t kMaxKey = 256;
constexpr uint64_t kMinAlignment = 8, kMaxAlignment = 1 << 20;

// Bytes of one value by gguf_type; 0 for those without a fixed size.
constexpr std::array<uint64_t, GGUF_TYPE_COUNT> kValueBytes = {1, 1, 2, 2, 4, 4, 4,
                                                               1, 0, 0, 8, 8, 8};

class HeaderWalk {
 public:
  explicit HeaderWalk(std::span<const std::byte> file) : file_(file) {}

  void run() {
    check_magic();
    const auto tensors = count("tensors", kMaxTensors);
    const auto pairs = count("key-value pairs", kMaxKeyValues);
    for (uint64_t i = 0; i < pairs; ++i) check_pair();
    for (uint64_t i = 0; i < tensors; ++i) check_tensor();
    check_data();
  }

 private:
  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::bad_file) const {
    throw Error(code, "GGUF header, byte " + std::to_string(offset_) + ": " + what);
  }

  uint64_t left() const { return file_.size() - offset_; }

  template <typename T>
  T read(const char* what) {
    if (left() < sizeof(T)) fail(std::string("file ends inside ") + what);
    T value;
    std::memcpy(&value, file_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  uint64_t count(const char* what, uint64_t most) {
    const auto n = read<uint64_t>(what);
    if (n > most) fail(std::to_string(n) + " " + what + "; at most " + std::to_string(most));
    return n;
  }

  std::string_view read_string(const char* what, uint64_t most) {
    const auto length = read<uint64_t>(what);
    if (length > most || length > left()) {
      fail(std::string(what) + " of " + std::to_string(length) + " bytes is too long");
    }
    // A view of bytes as chars is the one aliasing that the language allows.
    const std::string_view text(reinterpret_cast<const char*>(file_.data() + offset_), length);
    offset_ += length;
    return text;
  }

  // Keys and tensor names: printable, since ggml compares them as C strings and messages show them.
  std::string read_name(const char* what, uint64_t most) {
    std::string name(read_string(what, most));
    if (name.empty()) fail(std::string("empty ") + what);
    for (const char c : name) {
      if (c <= ' ' || c > '~') fail(std::string(what) + " with a character that is not printable");
    }
    return name;
  }

  void check_magic() {
    if (file_.size() < 4 || std::memcmp(file_.data(), GGUF_MAGIC, 4) != 0) {
      fail("not a GGUF file (no magic \"GGUF\")");
    }
    offset_ = 4;
    const auto version = read<uint32_t>("version");
    if (version != 2 && version != 3) {
      fail("version " + std::to_string(version) + "; known are 2 and 3", ErrorCode::unsupported);
    }
  }

  void skip_value(uint32_t type, uint64_t n, const std::string& key) {
    if (type >= GGUF_TYPE_COUNT || type == GGUF_TYPE_ARRAY) {
      fail("value type " + std::to_string(type) + " of key " + key + " is not known");
    }
    if (type == GGUF_TYPE_STRING) {
      for (uint64_t i = 0; i < n; ++i) read_string("string value", kMaxString);
      return;
    }
    if (n > left() / kValueBytes[type]) fail("file ends inside the value of key " + key);
    offset_ += n * kValueBytes[type];
  }

  void check_pair() {
    const std::string key = read_name("key", kMaxKey);
    if (!keys_.insert(key).second) fail("key " + key + " occurs twice");
    const auto type = read<uint32_t>("value type");
    if (key == GGUF_KEY_GENERAL_ALIGNMENT) return read_alignment(type);
    if (type != GGUF_TYPE_ARRAY) return skip_value(type, 1, key);
    const auto element = read<uint32_t>("array type");
    const auto n = count("array elements", kMaxArray);
    skip_value(element, n, key);
  }

  void read_alignment(uint32_t type) {
    if (type != GGUF_TYPE_UINT32) fail("general.alignment is not a 32-bit unsigned number");
    alignment_ = read<uint32_t>("general.alignment");
    if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment ||
        alignment_ > kMaxAlignment) {
      fail("general.alignment " + std::to_string(alignment_) + " is not a power of two from " +
           std::to_string(kMinAlignment) + " to " + std::to_string(kMaxAlignment));
    }
  }

  void check_tensor() {
    const std::string name = read_name("tensor name", GGML_MAX_NAME - 1);
    if (!tensors_.insert(name).second) fail("tensor " + name + " occurs twice");
    const auto n_dims = read<uint32_t>("number of dimensions");
    if (n_dims < 1 || n_dims > GGML_MAX_DIMS) {
      fail("tensor " + name + " has " + std::to_string(n_dims) + " dimensions");
    }
    uint64_t row = 0, elements = 1;
    for (uint32_t d = 0; d < n_dims; ++d) {
      const auto ne = read<uint64_t>("dimension");
      if (ne == 0 || ne > INT64_MAX || __builtin_mul_overflow(elements, ne, &elements)) {
        fail("dimensions of tensor " + name + " are zero or overflow");
      }
      if (d == 0) row = ne;
    }
    const auto bytes = tensor_bytes(name, read<uint32_t>("tensor type"), row, elements);
    place_tensor(name, read<uint64_t>("tensor offset"), bytes);
  }

  uint64_t tensor_bytes(const std::string& name, uint32_t raw_type, uint64_t row,
                        uint64_t elements) const {
    const auto known = [](uint32_t t) {
      return t < GGML_TYPE_COUNT && ggml_blck_size(ggml_type(t)) > 0 &&
             ggml_type_size(ggml_type(t)) > 0;
    };
    if (!known(raw_type)) {
      fail("type " + std::to_string(raw_type) + " of tensor " + name + " is not known",
           ErrorCode::unsupported);
    }
    const auto type = ggml_type(raw_type);
    const auto block = uint64_t(ggml_blck_size(type));
    if (row % block != 0) {
      fail("rows of tensor " + name + " are not whole blocks of " + ggml_type_name(type));
    }
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements / block, uint64_t(ggml_type_size(type)), &bytes) ||
        bytes > file_.size()) {
      fail("data of tensor " + name + " is larger than the file");
    }
    return bytes;
  }

  // Tensors follow each other without gaps other than the alignment's.
  void place_tensor(const std::string& name, uint64_t at, uint64_t bytes) {
    if (at != data_bytes_) {
      fail("tensor " + name + " is at offset " + std::to_string(at) + " of the data, expected " +
           std::to_string(data_bytes_));
    }
    data_end_ = at + bytes;
    if (data_end_ > file_.size()) fail("data of tensor " + name + " is beyond the file's end");
    data_bytes_ = pad(data_end_);
  }

  void check_data() const {
    if (tensors_.empty()) return;
    if (const uint64_t start = pad(offset_);
        start > file_.size() || data_end_ > file_.size() - start) {
      fail("file of " + std::to_string(file_.size()) +
           " bytes is shorter than its tensors, which end at " + std::to_string(start + data_end_));
    }
  }

  uint64_t pad(uint64_t n) const { return (n + alignment_ - 1) / alignment_ * alignment_; }

  std::span<const std::byte> file_;
  uint64_t offset_ = 0;
  uint64_t alignment_ = GGUF_DEFAULT_ALIGNMENT;
  uint64_t data_bytes_ = 0;  // of the tensors so far, padded: where the next one must begin
  uint64_t data_end_ = 0;    // the same without the last padding
  std::unordered_set<std::string> keys_, tensors_;
};

}  // namespace

void check_gguf(std::span<const std::byte> file) { HeaderWalk(file).run(); }

}  // namespace pith
