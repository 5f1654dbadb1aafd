#pragma once

#include <gguf.h>

#include <cstdint>
#include <optional>
#include <string>

namespace pith {

/// Typed reading of a GGUF file's key-values. Whatever is there must have a fitting type: a wrong
/// one is Error(bad_file) naming the key, never ggml's abort.
class GgufKeys {
 public:
  explicit GgufKeys(const gguf_context* header) : header_(header) {}

  bool has(const std::string& key) const { return find(key) >= 0; }
  std::optional<std::string> text(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  /// Any integer type. An array counts as one value where all its elements are equal; others are
  /// Error(unsupported).
  std::optional<int64_t> integer(const std::string& key) const;
  /// Elements of an array; absent where the key is, Error(bad_file) where it is no array of `type`.
  std::optional<int64_t> array_size(const std::string& key, gguf_type type) const;
  /// Raw elements of an array whose type array_size() has checked.
  const void* array_data(const std::string& key) const;
  std::string array_text(const std::string& key, int64_t index) const;

 private:
  int64_t find(const std::string& key) const { return gguf_find_key(header_, key.c_str()); }

  const gguf_context* header_;
};

}  // namespace pith
