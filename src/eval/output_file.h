#pragma once

#include <string>
#include <string_view>

namespace pith {

/// A result file that appears whole or not at all: written under a temporary name beside its place
/// and renamed. Devices and pipes are written directly. Opening it first finds an unwritable place
/// before the long work starts.
class OutputFile {
 public:
  /// Throws Error(io) where the file cannot be created.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes everything and puts the file in its place. Throws Error(io), leaving what was there
  /// before, where the system refuses (full disk).
  void commit(std::string_view content);

 private:
  void write_all(std::string_view content);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::string temporary_;  // empty for devices and pipes
  int descriptor_ = -1;
};

}  // namespace pith
