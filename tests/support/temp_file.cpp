#include "support/temp_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace pith::test {

TempFile::TempFile(std::string_view content, const std::string& suffix)
    : path_((std::filesystem::temp_directory_path() / "pith-test-XXXXXX").string() + suffix) {
  const int descriptor = mkstemps(path_.data(), int(suffix.size()));
  if (descriptor < 0) throw std::runtime_error("cannot create " + path_);
  close(descriptor);
  if (!content.empty()) write_file(path_, content);
}

TempFile::~TempFile() { unlink(path_.c_str()); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), std::streamsize(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace pith::test
