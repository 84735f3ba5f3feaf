#include "formats/unpacked_file.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
constexpr std::int64_t kMostRatio = 1032;  // the densest code of DEFLATE: 258 bytes in two bits

Error broken(const File& file, std::string why) {
  return data_error("E-DATA-FORMAT", file.path(), std::move(why), "a whole gzip file; it may have been cut or changed on its way",
                    {fmt::format("gzip -t '{}'", file.path())});
}

bool begins_packed(const File& file) {
  std::array<std::byte, 2> begin{};
  if (file.size() < std::ssize(begin)) return false;
  file.read_at(0, begin);
  return begin[0] == std::byte{0x1f} && begin[1] == std::byte{0x8b};
}

}  // namespace

struct UnpackedFile::Packed {
  z_stream stream{};
  std::vector<std::byte> buffer = std::vector<std::byte>(kBufferBytes);
  bool ended = false;   // between two members, or at the end
  bool padded = false;  // zeros follow the last member

  Packed() {
    constexpr int kGzip = 16;
    ensure(inflateInit2(&stream, kGzip + MAX_WBITS) == Z_OK, "UnpackedFile", "zlib has no memory");
  }
  ~Packed() { inflateEnd(&stream); }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
};

UnpackedFile::UnpackedFile(const File& file) : file_(file) {
  if (begins_packed(file)) packed_ = std::make_unique<Packed>();
}

UnpackedFile::~UnpackedFile() = default;

std::int64_t UnpackedFile::most_bytes() const { return packed_ ? file_.size() * kMostRatio : file_.size(); }

std::size_t UnpackedFile::read(std::span<std::byte> bytes) {
  if (!packed_) {
    const auto left = static_cast<std::size_t>(file_.size() - at_);
    bytes = bytes.first(std::min(bytes.size(), left));
    file_.read_at(at_, bytes);
    file_.forget(at_, std::ssize(bytes));
    at_ += std::ssize(bytes);
    position_ = at_;
    return bytes.size();
  }
  z_stream& stream = packed_->stream;
  std::size_t done = 0;
  while (done < bytes.size()) {
    if (stream.avail_in == 0) {
      const std::int64_t left = file_.size() - at_;
      if (left == 0 && packed_->ended) break;
      if (left == 0) throw broken(file_, fmt::format("its packed bytes end in the middle, after {} bytes of content", position_));
      const auto piece = std::span(packed_->buffer).first(std::min<std::size_t>(kBufferBytes, static_cast<std::size_t>(left)));
      file_.read_at(at_, piece);
      file_.forget(at_, std::ssize(piece));
      at_ += std::ssize(piece);
      stream.next_in = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    const std::span rest(stream.next_in, stream.avail_in);
    if (packed_->padded || (packed_->ended && rest.front() == 0)) {  // padding up to a block, which gzip ignores as well
      if (std::ranges::any_of(rest, [](Bytef byte) { return byte != 0; })) {
        throw broken(file_, fmt::format("bytes follow its packed content and zeros, after {} bytes of content", position_));
      }
      packed_->padded = true;
      stream.avail_in = 0;
      continue;
    }
    if (packed_->ended) {  // a further member
      inflateReset(&stream);
      packed_->ended = false;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
    stream.avail_out = room;
    const int result = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = room - stream.avail_out;
    done += made;
    position_ += static_cast<std::int64_t>(made);
    if (result == Z_STREAM_END) {
      packed_->ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw broken(file_, fmt::format("its packed bytes are broken after {} bytes of content ({})", position_,
                                      stream.msg != nullptr ? stream.msg : "no gzip"));
    }
  }
  return done;
}

}  // namespace plimsoll
