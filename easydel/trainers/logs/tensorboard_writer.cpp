#include "easydel/trainers/logs/tensorboard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/runtime.h"
#include "easydel/trainers/logs/crc32c.h"
#include "easydel/trainers/logs/protobuf.h"

namespace easydel {
namespace {

// Fields of tensorboard/compat/proto: event.proto, summary.proto, tensor.proto.
namespace event_field {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace value_field {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}

using protobuf::append_little_endian;
using protobuf::bytes_field;
using protobuf::double_field;
using protobuf::float_field;
using protobuf::varint_field;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string summary(const std::string& values) { return bytes_field(event_field::kSummary, values); }

// events.out.tfevents.<seconds>.<host>.<process>.<number>, as TensorBoard names them.
// They are read in the order of their names, so that the seconds are later than those of all that are there.
std::filesystem::path new_file(const std::filesystem::path& directory, int number) {
  constexpr std::string_view kBegin = "events.out.tfevents.";
  auto seconds = static_cast<int64_t>(now());
  for (const std::string& name : list_directory(directory)) {
    int64_t other = 0;
    if (!name.starts_with(kBegin)) continue;
    std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), other);
    if (other < INT64_MAX) seconds = std::max(seconds, other + 1);
  }
  std::string host = host_name();
  std::replace(host.begin(), host.end(), '/', '_');
  return directory / concat(kBegin, seconds, ".", host, ".", ::getpid(), ".", number);
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory, std::optional<int64_t> resume_step) {
  make_directory(directory);
  for (int number = 0; fd_ < 0; ++number) {
    path_ = new_file(directory, number);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    require<IoError>(fd_ >= 0 || errno == EEXIST, "[TensorboardWriter] ", path_.string(),
                     " cannot be created: ", errno_text(errno), ".");
  }
  write_event(std::nullopt, bytes_field(event_field::kFileVersion, "brain.Event:2"));
  if (resume_step) {
    constexpr uint32_t kStatus = 1, kStart = 1;  // SessionLog: what has this step or a later one is forgotten
    write_event(*resume_step + 1, bytes_field(event_field::kSessionLog, varint_field(kStatus, kStart)));
  }
}

TensorboardWriter::~TensorboardWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorboardWriter::write(int64_t step, const Scalars& scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars) {
    values += bytes_field(
        1, bytes_field(value_field::kTag, tag) + float_field(value_field::kSimpleValue, static_cast<float>(value)));
  }
  if (!values.empty()) write_event(step, summary(values));
}

void TensorboardWriter::write_text(int64_t step, const std::string& tag, const std::string& text) {
  constexpr uint32_t kDtype = 1, kShape = 2, kStrings = 8, kStringType = 7;               // TensorProto
  constexpr uint32_t kPluginData = 1, kPluginName = 1, kDataClass = 4, kTensorClass = 2;  // SummaryMetadata
  const std::string size_one = bytes_field(2, varint_field(1, 1));                        // TensorShapeProto.dim.size
  const std::string tensor =
      varint_field(kDtype, kStringType) + bytes_field(kShape, size_one) + bytes_field(kStrings, text);
  const std::string metadata =
      bytes_field(kPluginData, bytes_field(kPluginName, "text")) + varint_field(kDataClass, kTensorClass);
  write_event(
      step, summary(bytes_field(1, bytes_field(value_field::kTag, tag) + bytes_field(value_field::kMetadata, metadata) +
                                       bytes_field(value_field::kTensor, tensor))));
}

// A TFRecord: length, masked sum of the length, event, masked sum of the event.
void TensorboardWriter::write_event(std::optional<int64_t> step, const std::string& fields) {
  std::string event = double_field(event_field::kWallTime, now());
  if (step) event += varint_field(event_field::kStep, static_cast<uint64_t>(*step));
  event += fields;
  std::string record;
  append_little_endian(record, uint64_t{event.size()});
  append_little_endian(record, masked_crc32c(record));
  record += event;
  append_little_endian(record, masked_crc32c(event));
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t wrote = ::write(fd_, record.data() + done, record.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    require<IoError>(wrote > 0, "[TensorboardWriter] writing to ", path_.string(), " failed: ", errno_text(errno), ".");
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace easydel
