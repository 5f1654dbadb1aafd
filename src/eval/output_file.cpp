#include "eval/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "pith/error.hpp"

namespace pith {

namespace fs = std::filesystem;

OutputFile::OutputFile(const std::string& path) : path_(path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    errno = EISDIR;
    fail("cannot be written");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // A symbolic link is followed, so that the rename replaces its target and not the link.
    const fs::path target = fs::weakly_canonical(path, ignored);
    if (!target.empty()) path_ = target.string();
    temporary_ = path_ + ".partial-" + std::to_string(getpid());
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) fail("cannot be written");
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::commit(std::string_view content) {
  write_all(content);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  const bool closed = close(descriptor) == 0;
  if (!temporary_.empty()) {
    if (closed && rename(temporary_.c_str(), path_.c_str()) == 0) return;
    const int reason = errno;
    unlink(temporary_.c_str());
    errno = reason;
  }
  if (!closed || !temporary_.empty()) fail("writing failed");
}

void OutputFile::write_all(std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(descriptor_, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("writing failed");
    content.remove_prefix(size_t(count));
  }
}

void OutputFile::fail(const std::string& what) const {
  const int reason = errno;
  throw Error(ErrorCode::io, path_ + ": " + what + ": " + std::strerror(reason));
}

}  // namespace pith
