#include "formats/gguf/gguf_cutting.h"

namespace plimsoll {
namespace {

#define PLIMSOLL_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
constexpr const char* kQwen =
    PLIMSOLL_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    PLIMSOLL_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
#define PLIMSOLL_WORD R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define PLIMSOLL_UPPER_WORD R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
constexpr const char* kTekken =
    PLIMSOLL_WORD "|" PLIMSOLL_UPPER_WORD R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o = PLIMSOLL_WORD PLIMSOLL_CONTRACTIONS
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
    {.name = "qwen2", .pattern = kQwen, .composes = true},
    {.name = "deepseek-r1-qwen", .pattern = kQwen, .composes = true},
    {.name = "llama-bpe", .pattern = kLlama3, .whole_pieces = true, .begins = true},
    {.name = "llama3", .pattern = kLlama3, .whole_pieces = true, .begins = true},
    {.name = "llama-v3", .pattern = kLlama3, .whole_pieces = true, .begins = true},
    {.name = "falcon3", .pattern = kLlama3, .whole_pieces = true, .begins = true},
    {.name = "dbrx", .pattern = kLlama3},
    {.name = "smaug-bpe", .pattern = kLlama3},
    {.name = "tekken", .pattern = kTekken, .whole_pieces = true, .begins = true},
    {.name = "gpt-4o", .pattern = kGpt4o},
};

}  // namespace

std::span<const GgufCutting> gguf_cuttings() { return kCuttings; }

}  // namespace plimsoll
