#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace pith {

/// A GGUF file mapped read-only, its header checked and parsed. Pages are read when touched.
class GgufFile {
 public:
  /// Throws Error: io (cannot be read), bad_file or unsupported (see check_gguf), naming the file.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// The whole file.
  std::span<const std::byte> bytes() const { return {file_.get(), file_.get_deleter().size}; }
  const gguf_context* header() const { return header_.get(); }
  /// Name, type and shape of a tensor, without data; null where the file has none.
  const ggml_tensor* find(const std::string& name) const;
  /// The stored bytes of a tensor that find() gave.
  std::span<const std::byte> data(const ggml_tensor& tensor) const;
  /// Hands the pages wholly inside `range` back to the system; they are read again when touched.
  void release(std::span<const std::byte> range) const;

 private:
  struct Unmap {
    size_t size = 0;
    void operator()(const std::byte* address) const;
  };
  using Mapping = std::unique_ptr<const std::byte, Unmap>;

  static Mapping map(const std::string& path);
  void parse();

  std::string path_;
  Mapping file_;
  gguf_context_ptr header_;
  ggml_context_ptr tensors_;
};

}  // namespace pith
