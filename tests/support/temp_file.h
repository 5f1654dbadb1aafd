#pragma once

#include <string>
#include <string_view>

namespace pith::test {

/// A file of its own in the system's temporary folder, removed with the holder.
class TempFile {
 public:
  /// Creates it with `content`.
  explicit TempFile(std::string_view content = {}, const std::string& suffix = ".gguf");
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view content);

}  // namespace pith::test
