#include "formats/gguf/gguf_cutting.h"

namespace plimsoll {
namespace {

#define PLIMSOLL_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
constexpr const char* kSingleDigits =
    PLIMSOLL_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTripleDigits =
    PLIMSOLL_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#define PLIMSOLL_WORD R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define PLIMSOLL_UPPER_WORD R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
constexpr const char* kCasedWords =
    PLIMSOLL_WORD "|" PLIMSOLL_UPPER_WORD R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCasedWordsTripleDigits = PLIMSOLL_WORD PLIMSOLL_CONTRACTIONS
    "?|" PLIMSOLL_UPPER_WORD PLIMSOLL_CONTRACTIONS R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#undef PLIMSOLL_CONTRACTIONS
#undef PLIMSOLL_WORD
#undef PLIMSOLL_UPPER_WORD

constexpr GgufCutting kCuttings[] = {
    {.name = "gpt-2"},
    {.name = "phi-2"},
    {.name = "olmo", .composes = true},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "qwen2", .pattern = kSingleDigits, .composes = true},
    {.name = "deepseek-r1-qwen", .pattern = kSingleDigits, .composes = true},
    {.name = "llama-bpe", .pattern = kTripleDigits, .whole_pieces = true, .begins = true},
    {.name = "llama3", .pattern = kTripleDigits, .whole_pieces = true, .begins = true},
    {.name = "llama-v3", .pattern = kTripleDigits, .whole_pieces = true, .begins = true},
    {.name = "falcon3", .pattern = kTripleDigits, .whole_pieces = true, .begins = true},
    {.name = "dbrx", .pattern = kTripleDigits},
    {.name = "smaug-bpe", .pattern = kTripleDigits},
    {.name = "tekken", .pattern = kCasedWords, .whole_pieces = true, .begins = true},
    {.name = "gpt-4o", .pattern = kCasedWordsTripleDigits},
};

}  // namespace

std::span<const GgufCutting> gguf_cuttings() { return kCuttings; }

}  // namespace plimsoll
