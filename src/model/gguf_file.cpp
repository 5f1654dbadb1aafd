#include "model/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/ggml_log.h"
#include "model/gguf_check.h"
#include "pith/error.hpp"

namespace pith {
namespace {

[[noreturn]] void fail_io(const std::string& path) {
  throw Error(ErrorCode::io, path + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail_io(path);
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void GgufFile::Unmap::operator()(const std::byte* address) const {
  munmap(const_cast<std::byte*>(address), size);
}

GgufFile::Mapping GgufFile::map(const std::string& path) {
  const Descriptor file(path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) fail_io(path);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::io, path + ": not a regular file");
  if (status.st_size == 0) throw Error(ErrorCode::bad_file, path + ": empty file");
  const auto size = size_t(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_io(path);
  return Mapping(static_cast<const std::byte*>(address), Unmap{size});
}

void GgufFile::parse() {
  check_gguf(bytes());
  ggml_context* tensors = nullptr;
  header_.reset(gguf_init_from_buffer(file_.get(), bytes().size(), {true, &tensors}));
  tensors_.reset(tensors);
  if (!header_) throw Error(ErrorCode::bad_file, "ggml cannot read the GGUF header");
}

GgufFile::GgufFile(const std::string& path) : path_(path), file_(map(path)) {
  silence_ggml();
  try {
    parse();
  } catch (const Error& error) {
    throw Error(error.code(), path_ + ": " + error.what());
  }
}

const ggml_tensor* GgufFile::find(const std::string& name) const {
  return ggml_get_tensor(tensors_.get(), name.c_str());
}

std::span<const std::byte> GgufFile::data(const ggml_tensor& tensor) const {
  const auto id = gguf_find_tensor(header_.get(), tensor.name);
  const size_t at = gguf_get_data_offset(header_.get()) + gguf_get_tensor_offset(header_.get(), id);
  return bytes().subspan(at, ggml_nbytes(&tensor));
}

void GgufFile::release(std::span<const std::byte> range) const {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  const auto first = size_t(range.data() - file_.get());
  const size_t begin = (first + page - 1) / page * page;
  const size_t end = (first + range.size()) / page * page;
  if (begin < end) madvise(const_cast<std::byte*>(file_.get()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace pith
