#include "data/file_kind.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/conversions.h"

namespace plimsoll {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kLookedAt = 4096;

constexpr const char* kOtherData = "data.train = text or tokens";
constexpr const char* kUnpack = "unpack it first";
constexpr const char* kExtractText = "extract its text into a .txt file";
constexpr const char* kNumpy =
    "python3 -c 'import sys, numpy; numpy.load(sys.argv[1]).astype(\"<u2\").tofile(sys.argv[2])' FILE OUT.bin  # ids below "
    "65,536";
constexpr const char* kWideNumpy =
    "python3 -c 'import sys, numpy; numpy.load(sys.argv[1]).astype(\"<u4\").tofile(sys.argv[2])' FILE OUT.bin  # data.format u32";
constexpr const char* kParquetText =
    "python3 -c 'import sys, pandas; [print(text) for text in pandas.read_parquet(sys.argv[1])[\"text\"]]' FILE > OUT.txt";
constexpr const char *kJsonText = "JSON lines", *kJsonArrayText = "JSON", *kTableText = "a table";  // remedies by columns

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  const char *what, *remedy;
};
// Magic numbers long enough that no text and hardly any tokens begin with them.
constexpr Magic kMagics[] = {
    {0, "\x1f\x8b\x08"sv, "a gzip file", "gzip -dc FILE > OUT.txt"},
    {0, "PK\x03\x04"sv, "a zip archive", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", "zstd -dc FILE > OUT.txt"},
    {0, "\xfd\x37zXZ\x00"sv, "an xz file", "xz -dc FILE > OUT.txt"},
    {0, "BZh91AY&SY"sv, "a bzip2 file", "bzip2 -dc FILE > OUT.txt"},
    {0, "\x04\x22\x4d\x18"sv, "an lz4 file", "lz4 -dc FILE > OUT.txt"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {0, "Rar!\x1a\x07"sv, "a rar archive", kUnpack},
    {257, "ustar"sv, "a tar archive", "tar -xf FILE"},
    {0, "\x93NUMPY"sv, "a NumPy array", kNumpy},
    {0, "PAR1"sv, "a Parquet file", kParquetText},
    {0, "ARROW1\0"sv, "an Arrow file", kExtractText},
    {0, "\x89HDF\r\n"sv, "an HDF5 file", kExtractText},
    {0, "%PDF-"sv, "a PDF", "pdftotext FILE OUT.txt"},
    {0, "\x89PNG\r\n"sv, "an image", kOtherData},
    {0, "\xff\xd8\xff\xe0"sv, "an image", kOtherData},
    {0, "\xff\xd8\xff\xe1"sv, "an image", kOtherData},
    {0, "GIF89a"sv, "an image", kOtherData},
    {0, "GIF87a"sv, "an image", kOtherData},
    {8, "WEBPVP8"sv, "an image", kOtherData},
    {8, "WAVEfmt "sv, "a sound", kOtherData},
    {0, "SQLite format 3\0"sv, "an SQLite database", kExtractText},
    {0, "GGUF\3"sv, "a model in GGUF", kOtherData},
    {0,
     "\x7f"
     "ELF\2\1\1"sv,
     "a program", kOtherData},
    {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an Office document", kExtractText},
};

struct Extension {
  std::string_view name;
  const char *what, *remedy;
};
constexpr Extension kExtensions[] = {
    {".jsonl", "JSON lines", kJsonText},
    {".ndjson", "JSON lines", kJsonText},
    {".json", "JSON", kJsonArrayText},
    {".csv", "a table", kTableText},
    {".tsv", "a table", kTableText},
    {".npy", "a NumPy array", kNumpy},
    {".npz", "NumPy arrays", kNumpy},
    {".parquet", "a Parquet file", kParquetText},
    {".arrow", "an Arrow file", kExtractText},
    {".feather", "an Arrow file", kExtractText},
    {".gz", "a gzip file", "gzip -dc FILE > OUT.txt"},
    {".zst", "a zstd file", "zstd -dc FILE > OUT.txt"},
    {".xz", "an xz file", "xz -dc FILE > OUT.txt"},
    {".bz2", "a bzip2 file", "bzip2 -dc FILE > OUT.txt"},
    {".zip", "a zip archive", kUnpack},
    {".tar", "a tar archive", "tar -xf FILE"},
    {".pdf", "a PDF", "pdftotext FILE OUT.txt"},
    {".html", "HTML", kExtractText},
    {".htm", "HTML", kExtractText},
    {".pkl", "a Python pickle", kExtractText},
    {".pickle", "a Python pickle", kExtractText},
    {".pt", "a PyTorch file", kOtherData},
    {".pth", "a PyTorch file", kOtherData},
    {".safetensors", "a safetensors file", kOtherData},
    {".gguf", "a model in GGUF", kOtherData},
};

std::string begin_of(const File& file) {
  std::string begin(static_cast<std::size_t>(std::min<std::int64_t>(kLookedAt, file.size())), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(begin)));
  return begin;
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number number = 0;
  if (offset + sizeof number <= bytes.size()) std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool has_magic(std::string_view begin, const Magic& magic) {
  return begin.size() >= magic.offset && begin.substr(magic.offset).starts_with(magic.bytes);
}

// A JSON header after its length in eight bytes.
bool is_safetensors(std::string_view begin, std::int64_t size) {
  if (begin.size() < 10 || !begin.substr(8).starts_with("{\"")) return false;
  return number_at<std::uint64_t>(begin, 0) <= static_cast<std::uint64_t>(size - 8);
}

// Protocols 2 to 5 and an opcode that begins a value; torch.save's old files begin so, too.
bool is_pickle(std::string_view begin) {
  return begin.size() > 4 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 &&
         "\x8a\x95}](\x8c\x63"sv.find(begin[2]) != std::string_view::npos;
}

// Tokens of three or four bytes: every second 16-bit half is near 0.
bool is_wide_tokens(std::string_view begin, std::int64_t vocab) {
  const std::size_t count = begin.size() / 4;
  if (count < 16) return false;
  const std::int64_t highest = std::max<std::int64_t>(vocab - 1, 0) >> 16;
  std::size_t filled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (number_at<std::uint16_t>(begin, 4 * i + 2) > highest) return false;
    filled += number_at<std::uint16_t>(begin, 4 * i) > highest ? 1 : 0;
  }
  return filled >= count / 4;
}

bool is_plain_text(std::string_view begin) {
  constexpr std::size_t kEnough = 64;
  return begin.size() >= kEnough &&
         std::ranges::all_of(begin, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; });
}

// One JSON object or array per line. A line longer than `begin` cannot be told from text.
bool is_json_lines(std::string_view begin, bool whole) {
  const auto opens = [](std::string_view line) { return line.starts_with('{') || line.starts_with('['); };
  if (!opens(begin)) return false;
  int lines = 0;
  while (!begin.empty() && lines < 3) {
    const bool cut = begin.find('\n') == std::string_view::npos && !whole;
    const std::string_view line = next_line(begin);
    if (line.empty() || cut) break;
    if (!opens(line) || !nlohmann::json::accept(line)) return false;
    ++lines;
  }
  return lines > 0;
}

// A first line of names such as "id,text", no sentence, with the same number of commas in the lines after it.
bool is_table(std::string_view begin) {
  const std::string_view names = next_line(begin);
  const auto commas = std::ranges::count(names, ',');
  const bool plain =
      std::ranges::all_of(names, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ','; });
  if (commas < 1 || !plain || names.find(",,") != std::string_view::npos) return false;
  int rows = 0;
  for (; rows < 3 && begin.find('\n') != std::string_view::npos; ++rows) {
    if (std::ranges::count(next_line(begin), ',') < commas) return false;
  }
  return rows == 3;
}

// A token width that the user has given is not questioned.
std::optional<ForeignKind> foreign_tokens(std::string_view begin, std::int64_t vocab, KindBy by) {
  if (is_plain_text(begin)) return ForeignKind{"text", Remedy(Change("data.format", "bytes"), "or bpe, with a vocabulary")};
  if (by == KindBy::all && is_wide_tokens(begin, vocab)) return ForeignKind{"tokens of four bytes", Change("data.format", "u32")};
  return {};
}

std::optional<ForeignKind> zero_bytes(std::string_view begin, std::int64_t vocab) {
  if (begin.find('\0') == std::string_view::npos) return {};
  return ForeignKind{"no text: it holds zero bytes", is_wide_tokens(begin, vocab)
                                                         ? Remedy(Change("data.format", "u32"), "if it is tokens of four bytes")
                                                         : Remedy(Change("data.format", "u16"), "if it is tokens")};
}

std::optional<ForeignKind> foreign_text(const File& file, std::string_view begin, std::int64_t vocab, KindBy by) {
  if (begin.starts_with("\xff\xfe\0\0"sv)) return ForeignKind{"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > OUT.txt"};
  if (begin.starts_with("\xff\xfe"sv) || begin.starts_with("\xfe\xff"sv)) {
    return ForeignKind{"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > OUT.txt"};
  }
  if (begin.starts_with("\0\0\xfe\xff"sv)) return ForeignKind{"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > OUT.txt"};
  if (by == KindBy::bytes) return zero_bytes(begin, vocab);
  const std::string extension = lower(std::filesystem::path(file.path()).extension().string());
  for (const Extension& each : kExtensions) {
    if (extension == each.name) return ForeignKind{each.what, each.remedy};
  }
  const bool whole = file.size() == std::ssize(begin);
  if (begin.starts_with("\xef\xbb\xbf"sv)) begin.remove_prefix(3);  // the mark of UTF-8
  if (is_table(begin)) return ForeignKind{"a table", kTableText};
  if (is_json_lines(begin, whole)) return ForeignKind{"JSON lines", kJsonText};
  const std::string start = lower(begin.substr(0, 16));
  if (start.starts_with("<!doctype html") || start.starts_with("<html")) return ForeignKind{"HTML", kExtractText};
  return zero_bytes(begin, vocab);
}

std::optional<ForeignKind> look_at(const File& file, bool tokens, std::int64_t vocab, KindBy by) {
  const std::string begin = begin_of(file);
  for (const Magic& magic : kMagics) {
    if (has_magic(begin, magic)) return ForeignKind{magic.what, magic.remedy};
  }
  if (is_safetensors(begin, file.size())) return ForeignKind{"a safetensors file", kOtherData};
  if (is_pickle(begin)) return ForeignKind{"a Python pickle", kExtractText};
  return tokens ? foreign_tokens(begin, vocab, by) : foreign_text(file, begin, vocab, by);
}

}  // namespace

LlmcHeader read_llmc_header(const File& file) {
  const std::string begin = begin_of(file);
  return {number_at<std::int32_t>(begin, 0), number_at<std::int32_t>(begin, 4), number_at<std::int32_t>(begin, 8)};
}

std::int64_t bytes_per_token(const LlmcHeader& header) {
  const auto is = [&](const LlmcHeader& known) { return header.magic == known.magic && header.version == known.version; };
  return is(kLlmcNarrow) ? 2 : is(kLlmcWide) ? 4 : 0;
}

bool begins_like_llmc(const File& file) {
  const std::int32_t magic = read_llmc_header(file).magic;
  return magic == kLlmcNarrow.magic || magic == kLlmcWide.magic;
}

std::optional<ForeignKind> foreign_kind(const File& file, bool tokens, std::int64_t vocab, KindBy by) {
  std::optional<ForeignKind> kind = look_at(file, tokens, vocab, by);
  if (!kind) return {};
  if (kind->remedy == kNumpy && vocab > 1 << 16) kind->remedy = kWideNumpy;
  kind->json = kind->remedy == kJsonText || kind->remedy == kJsonArrayText;
  const std::string begin = begin_of(file);
  if (kind->json) {
    kind->remedy = text_of_json(begin, kind->remedy == kJsonText, file.path());
  } else if (kind->remedy == kTableText) {
    kind->remedy = text_of_table(begin, file.path());
    kind->samples = samples_of_table(begin, file.path());
  } else {
    if (kind->remedy.words == kParquetText) {
      kind->samples = conversion(
          "python3 -c 'import sys, pandas; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], "
          "orient=\"records\", lines=True)' FILE OUT.jsonl",
          file.path());
    }
    kind->remedy.words = conversion(std::move(kind->remedy.words), file.path());
  }
  return kind;
}

bool looks_like_json(const File& file) {
  const std::string begin = begin_of(file);
  std::string_view text = begin;
  if (text.starts_with("\xef\xbb\xbf"sv)) text.remove_prefix(3);
  if (is_json_lines(text, file.size() == std::ssize(begin))) return true;
  // An array over several lines, or a first line longer than `begin`.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  const std::size_t next = text.find_first_not_of(" \t\r\n", first + 1);
  return next != std::string_view::npos && (text[next] == '"' || (text[first] == '[' && text[next] == '{'));
}

}  // namespace plimsoll
