#include "cli/explain.h"

namespace plimsoll {
namespace {

const CodeExplanation kExplanations[] = {
    {"E-ADAPTER-BASE", "The model that an adapter belongs to is not there.",
     "An adapter is a few small matrices: it needs the weights that it was trained on. Its adapter_config.json names their "
     "folder, which has moved or is a name on a hub.",
     "Give the folder of the base anew with --weights, or as model.init of a training.",
     "plimsoll forward --weights BASE --adapter DIR --inputs ids.safetensors --out logits.safetensors"},
    {"E-ADAPTER-CONTRADICTION", "A key of [adapter] says something else than the folder in adapter.init.",
     "The folder brings kind, rank, alpha, targets and all other settings of its numbers. Only the dropout may differ.",
     "Remove the key that the message names, or begin a new adapter without adapter.init.",
     "plimsoll train CONFIG --set adapter.init=DIR"},
    {"E-ADAPTER-FEATURE", "An adapter uses something of PEFT that Plimsoll does not compute.",
     "LoRA, rsLoRA and DoRA on linear layers are computed, with ranks and alphas by pattern and modules that are trained whole. "
     "Initializations that change the base (pissa, olora, loftq, corda) are not, nor adapters of embeddings, biases, single "
     "tokens or "
     "experts.",
     "Merge the adapter with PEFT and use the merged weights, or train an adapter without it.",
     "plimsoll train CONFIG --set adapter.kind=lora"},
    {"E-ADAPTER-FOLDER", "A folder holds no adapter, or holds one in place of a model.",
     "An adapter has adapter_config.json and adapter_model.safetensors; a model has config.json and its weights. The folder of a "
     "run has the tensors of its adapter when it has ended.",
     "Give adapters with --adapter or adapter.init, and models with --weights or model.init.",
     "plimsoll eval CONFIG --adapter RUN"},
    {"E-ADAPTER-OUT", "The folder that a merge is to write is in use.",
     "A merge replaces its folder as a whole. It does not write into the base, the adapter, or a folder with other files.",
     "Name a folder that does not exist.", "plimsoll merge --adapter DIR --out NEW"},
    {"E-ADAPTER-PATTERN", "A pattern for names is no regular expression.",
     "model.freeze, a text in adapter.targets and the patterns of ranks and alphas are regular expressions in Perl's syntax.",
     "Escape special characters. Names of layers need no pattern: write them as a list.",
     "plimsoll plan CONFIG --set 'adapter.targets=[\"q_proj\", \"v_proj\"]'"},
    {"E-ADAPTER-SAVE", "adapter.modules_to_save names no module, or one that has an adapter.",
     "Its modules are trained whole in addition to the adapter: embeddings, norms, the head.",
     "Take a name that the message lists, or leave the layer out of adapter.targets.",
     "plimsoll plan CONFIG --set 'adapter.modules_to_save=[\"embed_tokens\", \"lm_head\"]'"},
    {"E-ADAPTER-TARGET", "adapter.targets chooses no layer, or one that cannot have an adapter; or the model has no such layer.",
     "A list has names of linear layers or the ends of such names. A text is a regular expression for whole names. The head, "
     "embeddings and norms get no adapter.",
     "Take names that the message lists, or \"all-linear\".", "plimsoll plan CONFIG --set adapter.targets=all-linear"},
    {"E-ADAPTER-TENSOR", "The tensors of an adapter do not match its configuration and the base.",
     "A tensor is missing, has another shape, or belongs to no layer: the adapter is for another model, or the file is from "
     "another program.",
     "Give the base that the adapter was trained on.", "plimsoll eval CONFIG --weights BASE --adapter DIR"},
    {"E-ADAPTER-TIED", "An adapter trains the head or the table of tokens, which are one tensor in the base.",
     "PEFT makes two tensors of them, unless both are in modules_to_save and stay equal. Plimsoll trains one.",
     "Name both in adapter.modules_to_save. If the adapter has two different ones, merge it: the merged model's head is a tensor "
     "of its own.",
     "plimsoll merge --weights BASE --adapter DIR --out NEW"},
    {"E-ADAPTER-TWICE", "The base has this adapter in it already.",
     "The weights come from a merge of just this adapter. Applied once more it would count double.",
     "Use the merged weights without the adapter, or the base that it was trained on.",
     "plimsoll generate --weights MERGED --prompt \"...\""},
    {"E-BATCH-3", "effective_batch is not micro_batch x accumulation.",
     "All three are given and disagree, or the effective batch is not divisible by the one that is given.",
     "Take one of the values that the message computes, or leave micro_batch and accumulation on auto: the planner then takes "
     "the fastest that fits. Neither changes which samples an update sees.",
     "plimsoll plan CONFIG --set train.micro_batch=auto --set train.accumulation=auto"},
    {"E-BATCH-NORM", "The groups of batch normalisation do not fit the batch.",
     "norm.stat_batch consecutive samples share a mean and a variance, so a micro-batch holds whole groups. A group must leave "
     "more "
     "than one value for each channel: of images reduced to one pixel, a single sample has no variance.",
     "Take one of the numbers that the message names. A smaller group changes results, and so do running statistics, which are "
     "those of the folder and do not move.",
     "plimsoll plan CONFIG --set norm.stat_batch=auto"},
    {"E-CHAT-CONTEXT", "A turn of a conversation has no room in the context.",
     "Old turns are left out if a conversation outgrows its context. The system turn and the last one stay, and an answer "
     "needs at least one token.",
     "Shorten the turn, or allow a larger context, up to the positions of the model.",
     "plimsoll generate --chat --weights FOLDER --context 8192"},
    {"E-CHAT-FEATURE", "A sample has something that is not trained on.",
     "Conversations are text: turns of users, the assistant and tools. Preferences (chosen, rejected), images, and the calls and "
     "histories that other programs write in their own ways are not read.",
     "Leave such samples out, or write them as messages.", "plimsoll train CONFIG --set data.train=messages.jsonl"},
    {"E-CHAT-MASK", "The trained tokens of a conversation cannot be found.",
     "A template with {% generation %} blocks marks them. With any other template, the text up to a turn must not change when "
     "the conversation goes on. Some templates take the reasoning out of earlier turns and change it. Each turn also takes two "
     "renderings of all turns before it: at most a million messages are rendered for one sample.",
     "Give a template for training, which has such blocks, or train on the last turn alone.",
     "plimsoll train CONFIG --set data.loss=last"},
    {"E-CHAT-SAMPLE", "A sample is no conversation and no text.",
     "It has the keys of no format, or a message lacks its role or content.",
     "Give each sample messages (role, content), conversations (from, value), instruction and output, prompt and completion, or "
     "text.",
     "plimsoll train CONFIG --set data.train=messages.jsonl"},
    {"E-CHAT-TEMPLATE", "A chat template is missing, is broken, or does not take a conversation.",
     "The template of the model turns messages into text. It may refuse some: two turns of one speaker, a system turn, tools. It "
     "also fails if it takes too many steps or writes too much.",
     "Change the sample that the message names, or give another template: data.template, or --template of generate --chat.",
     "plimsoll train CONFIG --set data.template=chat_template.jinja"},
    {"E-CHAT-UNTRAINED", "No sample has a token that is trained on.",
     "Loss is on the turns of the assistant. Samples without such a turn train nothing, nor do samples that lose it when they "
     "are cut to model.context.",
     "Look at the samples; train on other turns, or keep the end of long samples.", "plimsoll data show CONFIG"},
    {"E-CHILD", "A process that plans, measures or trains for a command ended early.",
     "It was killed, for example by a memory limit of the container, or could not be started.",
     "Allow it as much memory as the budget, and look for the kernel's message.", "plimsoll plan CONFIG"},
    {"E-CKPT-CORRUPT", "The checkpoint differs from the saved one.",
     "Bytes of the file changed since then: a disk or a memory is failing, or something else wrote to it.",
     "Resume from an older checkpoint, which the error names if there is one; later lines are set aside. If there is none, put "
     "back a copy of the file, or start anew. If the run stopped normally, its weights are in DIR/weights; to start from "
     "them, set model.init to that folder.",
     "plimsoll train --run DIR --resume --checkpoint UPDATE"},
    {"E-CKPT-FORMAT", "The checkpoint does not fit this run.", "It is damaged, or was written with another model or optimizer.",
     "Resume with the configuration of the run: DIR/config.resolved.toml.",
     "plimsoll train DIR/config.resolved.toml --run DIR --resume"},
    {"E-CKPT-FROZEN", "Frozen parameters have changed since the run began.",
     "A checkpoint holds no frozen parameters, only their folder and hashes. The folder has gone, moved, or holds other "
     "weights.",
     "Name the new place of the folder: it is used if all hashes agree. A folder with other weights begins another run.",
     "plimsoll train --run DIR --resume --set model.init=FOLDER"},
    {"E-CKPT-MISSING", "The run has no checkpoint to resume from.",
     "It ended before its first save. A run saves every ten minutes, at the end and when it is interrupted, unless "
     "save.every says otherwise.",
     "Begin anew, without --resume, in the same folder if it has no lines of updates. If only diverged exists, "
     "train.on_divergence = "
     "\"continue\" goes on from that.",
     "plimsoll train DIR/config.resolved.toml --run DIR --set save.every=2m"},
    {"E-CONFIG-CLASSES", "The data have other classes than the model.",
     "A folder's last layer scores a fixed number of classes. The labels of the training data are of another number, which is "
     "the "
     "largest label plus one.",
     "A new last layer fits the data: model.head = \"new\". A new model takes the number as model.classes.",
     "plimsoll plan CONFIG --set model.head=new"},
    {"E-CONFIG-CONFLICT", "Two settings contradict each other, or one of them has no effect.",
     "A schedule's key with another schedule, betas with half-lives, two ways to clip, a range of momentum without momentum.",
     "Keep one of the two; the message names them.", "plimsoll init"},
    {"E-CONFIG-FILE", "The configuration file cannot be read.",
     "The path is mistyped, relative to another folder, a folder itself, larger than 1 MiB, or not readable for you.",
     "Check the path. To begin with a complete file, let Plimsoll write one.", "plimsoll init > run.toml"},
    {"E-CONFIG-HEADS", "The numbers of heads and their size do not fit the width.",
     "Each attention head takes an equal part of the width, unless model.head_size gives its size. Heads of keys and values "
     "divide the heads. Rotary positions need an even size.",
     "Take one of the numbers that the message names. 64 per head is usual.", "plimsoll plan CONFIG --set model.heads=12"},
    {"E-CONFIG-INIT", "A key of the model's shape contradicts the folder in model.init.",
     "The folder's config.json brings the shape of its weights. Only dropout and a context of at most its positions may be "
     "chosen in addition.",
     "Remove the key that the message names. A folder on the command line counts before a shape in the file.",
     "plimsoll plan CONFIG --set model.init=FOLDER"},
    {"E-CONFIG-KEY", "A key of the configuration is unknown.",
     "It is misspelt, stands in the wrong section, or belongs to another program. Nothing is ignored silently, since a misspelt "
     "key would leave a default in force.",
     "Use the key that the message names, or its replacement. `plimsoll init` lists all of them with a line on "
     "each.",
     "plimsoll init"},
    {"E-CONFIG-MISSING", "A key that has no sensible default is not given.",
     "A run needs a model (preset, folder or whole shape), data.train and train.effective_batch.",
     "Add the key to the file, or give it with --set.", "plimsoll plan CONFIG --set train.effective_batch=32"},
    {"E-CONFIG-PATCH", "Patches do not cut the image into equal parts.",
     "A vision transformer reads an image as patches of model.patch pixels, so model.size is a multiple of it.",
     "Take one of the sizes that the message names.", "plimsoll plan CONFIG --set model.size=224"},
    {"E-CONFIG-PRECISION", "The requested precision does not exist.",
     "precision.compute is fp32, bf16, fp16 or auto, precision.parameters and precision.gradients fp32 or bf16, "
     "precision.optimizer_state fp32, bf16 or 8bit.",
     "Set it to one of those. A choice of precision is never made silently.",
     "plimsoll plan CONFIG --set precision.compute=fp32"},
    {"E-CONFIG-PRESET", "The name of the preset is unknown.",
     "Presets are gpt2, gpt2-medium, gpt2-large, gpt2-xl (GPT-2's sizes) and byte-3m, byte-10m (small, on bytes).",
     "Use one of them, or give layers, width, heads, context and vocab.", "plimsoll init gpt2"},
    {"E-CONFIG-RANGE", "A number is outside the range of its key, or a product of sizes is absurd.",
     "Sizes are positive and bounded, so that no product of them overflows; rates and fractions have natural limits.",
     "Give a value in the range that the message names.", "plimsoll init"},
    {"E-CONFIG-ROUNDING", "Rounding to nearest loses small changes, and was not confirmed.",
     "precision.rounding = \"nearest\": weights in bf16 lose every step below a 512th of their size, and sums of gradients lose "
     "addends below a 512th of the sum. A second moment that should fall by a thousandth stays.",
     "Leave it at \"stochastic\", which is right in the mean; to compare both, set precision.force_nearest = true.",
     "plimsoll train CONFIG --set precision.rounding=nearest --set precision.force_nearest=true"},
    {"E-CONFIG-SET", "An argument of --set is not of the form section.key=value.",
     "The equals sign is missing, or a space split the argument in two.",
     "Write --set train.updates=200; put quotes around values with spaces.", "plimsoll plan CONFIG --set train.updates=200"},
    {"E-CONFIG-SIZE", "A size of memory cannot be understood.",
     "Sizes are a number and a unit, in upper or lower case: KiB, MiB, GiB, TiB and K, M, G, T alone (powers of 1024, as Docker "
     "and Java read them), KB, MB, GB, TB (powers of 1000), or bytes. 50% is of this machine's memory.",
     "Write 512MiB, 2GiB, 2g, 50% or 1500000000.", "plimsoll plan CONFIG --memory 2GiB"},
    {"E-CONFIG-STAGES", "The stages of a ResNet do not fit each other.",
     "model.depths and model.widths have one number for each stage. A bottleneck has a quarter of its width inside, so 4 divides "
     "it.",
     "Give both lists the same length.", "plimsoll plan CONFIG --set 'model.depths=[2, 2]' --set 'model.widths=[64, 128]'"},
    {"E-CONFIG-SYNTAX", "The configuration is not TOML.",
     "Frequent causes: text without quotes, a comma or bracket that is missing, a key given twice, a decimal point without a "
     "digit next to it.",
     "Look at the line and column that the message names.", "plimsoll init"},
    {"E-CONFIG-TWICE", "The same setting is given under two names with different values.",
     "Aliases from other programs are understood (gradient_accumulation_steps for train.accumulation, for example), so both "
     "count.",
     "Keep one of the two lines.", "plimsoll init"},
    {"E-CONFIG-TYPE", "A value has the wrong type: text where a number is due, for example.",
     "In TOML, text stands in quotes and numbers do not; 1e-4 is a number.", "Write the value as the message expects it.",
     "plimsoll init"},
    {"E-CONFIG-VALUE", "A key has a value that it does not accept.",
     "A word is misspelt, or is that of another program. Or a regular expression for names tries too many ways to match one.",
     "Write an expression without repeated groups that repeat themselves. Else use one of the words that the message lists.",
     "plimsoll init"},
    {"E-CUDA-DEVICE", "No GPU can be used, or one has failed.",
     "There is none, its driver is older than the CUDA that the module was built with, a container hides it, or a kernel ended "
     "in an error; the message has the driver's words and both versions.",
     "Look at the output of nvidia-smi. A run continues from its last checkpoint with --resume.",
     "plimsoll train CONFIG --device cpu"},
    {"E-CUDA-LOAD", "The CUDA module cannot be loaded.",
     "This build has none (it was made without a GPU driver or without nvcc), or libcublasLt.so.13 is not where the loader "
     "looks.",
     "Build it where CUDA 13 is installed (scripts/build --cuda), or name the folder of its libraries: of a toolkit, or "
     "of PyTorch's packages (VENV/lib/python3.X/site-packages/nvidia/cu13/lib).",
     "LD_LIBRARY_PATH=/usr/local/cuda/lib64 plimsoll train CONFIG --device cuda"},
    {"E-CUDA-OP", "A GPU has no kernel for an op of the model.",
     "The model has an op that only the CPU runs, or the op has an attribute or a type that its GPU kernel does not take.",
     "Train it on the CPU.", "plimsoll train CONFIG --device cpu"},
    {"E-CUDA-UNVERIFIED", "Kernels of the model have not passed all of their tests on a GPU.",
     "The tests of a kernel are its op cases on a GPU, and the same under each tool of compute-sanitizer (docs/gpu.md).",
     "Try it with --unverified; scripts/on_gpu and plimsoll verify check your GPU.",
     "plimsoll train CONFIG --device cuda --unverified"},
    {"E-DATA-CHANGED", "A data file has changed while it was in use.",
     "Another program wrote to it while it was tokenised, or while a training read it. The bytes read may be neither the old "
     "content nor the new one, so they are not used. A training saves its state first.",
     "Wait until the file is complete. A run continues once its original data are back.", "plimsoll train --run DIR --resume"},
    {"E-DATA-EMPTY", "The data file is empty.", "It was not written completely, or the path is wrong.", "Check the file.",
     "ls -l FILE"},
    {"E-DATA-FILES", "A list, pattern or folder of data files cannot be taken as it is.",
     "A pattern matches nothing, a folder is empty or holds other folders, or there are more files than can stay open.",
     "Name files (data.train = [\"a.txt\", \"b.txt\"]), a pattern (\"texts/*.txt\") or a folder of files; join very many into "
     "one.",
     "cat texts/*.txt > all.txt"},
    {"E-DATA-FORMAT", "The data file does not have the format that data.format says.",
     "Raw tokens have two bytes each (u16) or four (u32), and a file is a whole number of them. llm.c's files begin with a "
     "header of 1,024 bytes: magic number 20240520 and version 1 before tokens of two bytes, 20240801 and version 7 before "
     "tokens of four. Arrays of images (idx, cifar10, cifar100) must be whole, and as long as their headers say. Files with "
     "bytes of another kind (packed, UTF-16, an array, raw tokens of four bytes) are refused. "
     "data.format = \"auto\" also refuses JSON lines, tables and names of other kinds. Files of several formats or widths are "
     "refused, too. \"bytes\" takes any file.",
     "Convert the file as the message says, or set data.format to its format: bytes, u16, u32, llmc or bpe.",
     "plimsoll train CONFIG --set data.format=bytes"},
    {"E-DATA-IMAGE", "Images do not have the size or the channels that the model takes.",
     "Images are square, with one channel (grey) or three. A model with a fixed size, such as a ViT, takes images of that size "
     "alone; all files of the data have one size. A model of three channels takes grey images, but not the reverse.",
     "Use images of that size, or a model that takes them: the message names both.",
     "plimsoll plan CONFIG --set data.train=PATH"},
    {"E-DATA-JSON", "A data file is not JSON, or a sample is too large.",
     "Samples stand one on a line, or in an array that is the whole file. This line is no JSON, or is not UTF-8, or it is longer "
     "than 64 MiB. With --memory, a sample may have a 32nd of the budget.",
     "Look at the line that the message names.", "python3 -m json.tool --json-lines data.jsonl"},
    {"E-DATA-LABEL", "A label is no class of the model.",
     "Labels count from 0, and the data has more classes than the model. Labels below 0 are rows that are ignored.",
     "Give the model as many classes as the data has, or look at the row that the message names.", "plimsoll train CONFIG"},
    {"E-DATA-LABELS", "Images and labels do not belong together.",
     "Files of format idx hold images or labels. data.labels names a file of labels for each file of images in data.train, in "
     "the "
     "same order and with as many entries; data.validation_labels does so for data.validation.",
     "Name the labels, or check their order.", "plimsoll train CONFIG --set data.labels=train-labels-idx1-ubyte.gz"},
    {"E-DATA-LONG", "A sample takes more positions than a row has.",
     "Files of samples in the cache are made for one context. This one was changed, or belongs to another.",
     "Remove the file that the message names; it is made again.", "plimsoll train CONFIG"},
    {"E-DATA-MISSING", "A data file does not exist or cannot be opened.",
     "Paths in a configuration are relative to its folder, those of --set to the current one.",
     "Check the path that the message names.", "plimsoll train CONFIG --set data.train=PATH"},
    {"E-DATA-PATH", "The path of a data file is not UTF-8.",
     "Plans and reports are JSON, which holds UTF-8 alone. The path may be that of the cache, where tokens of a text are kept.",
     "Rename the folder, or set XDG_CACHE_HOME to another one.", "XDG_CACHE_HOME=FOLDER plimsoll train CONFIG"},
    {"E-DATA-SHORT", "The data has too few tokens for one sample.",
     "It has fewer than two: one to read and one to predict. A last sample may be shorter than model.context. `plimsoll verify` "
     "takes at least two samples.",
     "Use more data.", "plimsoll train CONFIG --set data.train=PATH"},
    {"E-DATA-TARGET", "A token to be predicted is outside the vocabulary.",
     "The data was made for a larger vocabulary than model.vocab.", "Check data.format and model.vocab.",
     "plimsoll train CONFIG --set data.format=bytes"},
    {"E-DATA-TEXT", "A text cannot be tokenized.",
     "It is not UTF-8, or it is too long to be tokenized at once. A vocabulary of bytes takes single broken characters, and "
     "refuses a file of which more than half a percent is broken.",
     "Convert it to UTF-8; the message names the first byte that is none. Training data of any length is cut by itself.",
     "iconv -f LATIN1 -t UTF-8 FILE > text.txt"},
    {"E-DATA-THREAD", "The thread that reads ahead could not be started.",
     "The limit of processes or of memory of this user or container is reached.",
     "Raise the limit (ulimit -u), or end other processes.", "ulimit -a"},
    {"E-DATA-TOKEN", "A token is outside the model's vocabulary.",
     "The file was tokenised for another model, or is text that is read as tokens. Or the text has a token of the tokenizer, "
     "such as <pad>, that the weights have no row for.",
     "Set data.format to the format of the file. If the model begins as random numbers, set model.vocab to the vocabulary that "
     "the file was made with. If it comes from a folder, use data without the token.",
     "plimsoll train CONFIG --set data.format=bytes"},
    {"E-DATA-VALIDATION", "The share that is held out is none of the samples, or all of them.",
     "Samples are held out by a hash of their tokens or pixels, so a small share of few samples may be none.",
     "Hold out more, or name a file with samples for validation.", "plimsoll train CONFIG --set data.validation=10%"},
    {"E-DISK-CORRUPT", "Pages that were read back from the disk tier differ from the written ones.",
     "The disk or its cable is failing, or another program wrote to the file.",
     "Continue from the last checkpoint, which is intact, with a folder on another disk.",
     "plimsoll train CONFIG --run DIR --resume --disk ANOTHER_FOLDER:SIZE"},
    {"E-DISK-FOLDER", "The folder of the disk budget does not exist and cannot be created.",
     "Its parent folder is missing, something else has its name, or you may not write there.",
     "Name a folder whose parent exists: PATH:SIZE.", "plimsoll train CONFIG --disk /tmp/plimsoll:4GiB"},
    {"E-DISK-FULL", "The disk has no room for the page file of the plan.",
     "Other files fill it, or a quota or the largest size of a file is smaller than the plan's data there.",
     "Free space, or name a folder on a disk with more room.", "plimsoll train CONFIG --disk ANOTHER_FOLDER:SIZE"},
    {"E-DISK-IO", "The page file of the disk tier could not be read or written.",
     "The disk failed or was taken away, or the system refuses a thread or the ring (io_uring) that moves pages.",
     "Look at the system's log; continue from the last checkpoint with a folder on another disk.",
     "plimsoll train CONFIG --run DIR --resume --disk ANOTHER_FOLDER:SIZE"},
    {"E-DISK-SIZE", "The values that have to leave the memory of the kernels exceed the budgets of the other tiers.",
     "plan.optimizer_state, parameters, gradients or activations is \"disk\", and the size after the colon of --disk is too "
     "small, or with a device that of --host-memory.",
     "Give it more of the disk or the host, or leave them on \"auto\".", "plimsoll plan CONFIG --disk /tmp/plimsoll:16GiB"},
    {"E-DIVERGED",
     "Training has diverged. DIVERGED_NONFINITE: the loss or the gradient is not finite. DIVERGED_ABOVE_START: the "
     "smoothed loss was above that of the first updates for 50 in a row. DIVERGED_FROM_BEST: for 60 it had lost a third of what "
     "had been learned.",
     "The learning rate is too high for this model or batch, its warm-up too short, or the clip is off. The checkpoint is "
     "unchanged. If the numbers are finite, the state is in diverged next to it.",
     "Lower the learning rate by 3 to 10 times, lengthen the warm-up, keep gradient_clip = 1.0. metrics.jsonl shows where the "
     "gradient norm began to rise, and marks spikes. With --resume, train.on_divergence = \"continue\" continues from "
     "diverged if there is no later checkpoint.",
     "plimsoll train CONFIG --run NEW --set optimizer.learning_rate=1e-4 --set schedule.warmup=100updates"},
    {"E-EXPLAIN-CODE", "There is no error with this code.", "The code is misspelt.", "Copy it from the beginning of the message.",
     "plimsoll explain E-PLAN-FIT"},
    {"E-EXPLAIN-VALUE", "The plan has no value of this name or id, or no plan is given.",
     "The name is misspelt, belongs to a plan of another model, or stands there without --plan.",
     "Write the plan into a file, which has all its values, and name that file.", "plimsoll plan CONFIG --out plan.json"},
    {"E-EXPORT-ADAPTER", "An adapter has something that a GGUF file has no place for.",
     "GGUF adapters are LoRA on linear layers: two matrices for each, and one alpha. The magnitudes of DoRA, modules that were "
     "trained whole (modules_to_save), and an adapter of a table that is the head too do not fit.",
     "Merge the adapter into its base and export the merged model.", "plimsoll merge --adapter DIR --out NEW"},
    {"E-EXPORT-DISK", "A plan that uses a disk cannot be exported as an instance.",
     "Instances describe one memory. The plan keeps a part of the training on the disk of --disk or memory.disk.",
     "Export a plan that keeps the state in memory.",
     "plimsoll plan CONFIG --set plan.optimizer_state=memory --export-instance FILE"},
    {"E-EXPORT-GROUP", "A plan that takes several micro-batches through each block together cannot be exported as an instance.",
     "Instances describe one micro-batch; the plan's order of accumulation has each block's work once for each of several.",
     "Export a plan that takes one micro-batch after the other.",
     "plimsoll plan CONFIG --set plan.group=1 --export-instance FILE"},
    {"E-EXPORT-MODEL", "A GGUF file cannot describe the model.",
     "Programs that open GGUF files know an architecture by its keys. Rotary types dynamic and longrope, YaRN with settings of "
     "its own, sliding windows of Qwen, other activations and vocabularies of bytes have none.",
     "Export a model that docs/models.md lists under GGUF files.", "plimsoll export --weights DIR --gguf FILE --type BF16"},
    {"E-EXPORT-RANGE", "A tensor has numbers that the type of an export or a merge cannot hold.",
     "F16 ends at 65504, and the scales of Q8_0 are F16.", "Take BF16 or F32, which have the range of the weights.",
     "plimsoll export --weights DIR --gguf FILE --type BF16"},
    {"E-EXPORT-TOKENIZER", "GGUF has no name for the tokenizer's splitting.",
     "A GGUF file names a way to cut text; it does not describe one. There are names for BPE of bytes with the cuts of GPT-2, "
     "OLMo, "
     "SmolLM, Qwen2, Llama 3, Tekken and GPT-4o, and SentencePiece with byte fallback. The model needs a row for each token.",
     "Use the tokenizer that the model came with, or leave tokenizer.json out of the folder and give the other program its own.",
     "plimsoll tokenize --tokenizer DIR TEXT"},
    {"E-FORMAT-CONFIG", "The config.json of a model's folder is not usable.",
     "It is missing, broken, or has a feature that Plimsoll does not compute: another architecture or activation. Keys that "
     "would change the result are refused, never ignored.",
     "Use the folder of a model that docs/models.md lists.", "plimsoll plan CONFIG --set model.init=FOLDER"},
    {"E-FORMAT-GGUF", "The GGUF file is broken, or has an unsupported feature.",
     "It was cut short, by a broken download, for example. Or its architecture, its tokenizer or the type of a tensor is one "
     "that Plimsoll does not have: the message names it.",
     "Compare the size with the original and fetch it again. If the message names a type, use a file with one of the types that "
     "it lists. If it names an architecture, use a model of llama, mistral, qwen2, qwen3 or gpt2.",
     "plimsoll plan CONFIG --set model.init=FILE.gguf"},
    {"E-FORMAT-INDEX", "model.safetensors.index.json and the files that it names do not agree.",
     "A file is missing or from another download, the index was edited, or it names a path outside of the folder. Each tensor "
     "must be in exactly the file that weight_map names, and each file must lie in the folder itself.",
     "Fetch the folder again, all of its files.", "ls -l FOLDER"},
    {"E-FORMAT-NAN", "A tensor of the weights, or a scale of one of its blocks, is NaN or infinite.",
     "The training that made it diverged, a conversion left the range of its type, or the file is damaged. All results of the "
     "model would be NaN.",
     "Take an earlier checkpoint of that training, convert the weights in fp32, or fetch the file again.",
     "plimsoll eval CONFIG --weights FOLDER"},
    {"E-FORMAT-QUANT", "A quantised matrix is not stored as bitsandbytes stores one.",
     "Such a matrix lies in several tensors: its codes, the scales of its blocks or rows, and for nf4 a JSON object with its "
     "shape. One of them is missing, has another size, or names a format that is not read.",
     "Save the model again with bitsandbytes (nf4 with blocks of 64, or int8), or use the weights before they were quantised and "
     "set quantize.base.",
     "plimsoll eval CONFIG --weights FOLDER --set quantize.base=nf4"},
    {"E-FORMAT-SAFETENSORS", "The file is not a valid safetensors file.", "It was cut short, by a broken download, for example.",
     "Compare its size with the original and fetch it again.", "ls -l FOLDER/model.safetensors"},
    {"E-FORMAT-TENSOR", "A tensor of the file is missing, or is not of the type that is needed.",
     "The file belongs to another model, or was saved in another precision.",
     "Use the weights of such a model, saved in fp32, fp16 or bf16.", "plimsoll plan CONFIG --set model.init=FOLDER"},
    {"E-FORMAT-TIE", "One parameter is stored under two names, with different numbers.",
     "config.json says that the head and the embedding are one table, and the files hold two. One of the two would be lost.",
     "If the head has weights of its own, set tie_word_embeddings to false in the folder's config.json. Else remove one of the "
     "two tensors.",
     "plimsoll plan CONFIG --set model.init=FOLDER"},
    {"E-FORMAT-VOCABULARY", "vocab.json or merges.txt is not a GPT-2 vocabulary.",
     "A file is broken, or belongs to a tokenizer of another kind.", "Use both files from one folder of a GPT-2 model.",
     "plimsoll train CONFIG --set data.vocabulary=FOLDER"},
    {"E-FORMAT-WEIGHTS", "The folder has no weights that can be read, or they do not match the shape in config.json.",
     "There is neither model.safetensors nor model.safetensors.index.json: .bin files are not read. Or files of two models lie "
     "in one folder, or config.json was edited.",
     "Save the model again with save_pretrained, or fetch the folder again.", "plimsoll plan CONFIG --set model.init=FOLDER"},
    {"E-FREEZE", "model.freeze has a pattern that fits no parameter, or leaves nothing to train.",
     "Each pattern is a regular expression for all of the name of a parameter, or of a module that holds it: \"wte\", "
     "\"h\\.[0-5]\", \".*\\.bias\".",
     "Take names from `plimsoll plan CONFIG --values`.", "plimsoll plan CONFIG --set 'model.freeze=[]'"},
    {"E-GRADIENT", "A value that must be trained has no gradient.",
     "The model applies an operation that is not differentiable between a parameter and the loss.",
     "Use another operation there.", "plimsoll plan CONFIG --values"},
    {"E-HOST-SIZE", "The process on the host alone is larger than the host's budget.",
     "With a device, --host-memory bounds the program on the host: its code, its kernels, the graph and data in transit.",
     "Give the host at least the bytes that the message names, and in addition those of the values that should rest there.",
     "plimsoll plan CONFIG --device sim --host-memory 2GiB"},
    {"E-INSTANCE", "The file is not an instance of a training graph.",
     "It is no JSON, has another schema, or breaks the rules of instances/README.md at the place in the message.",
     "Let Plimsoll write one, and change that.", "plimsoll plan CONFIG --export-instance FILE.json"},
    {"E-INTERNAL", "A defect of Plimsoll.", "An invariant that no input may break did not hold.",
     "Please report the message with the configuration. Nothing that existed was overwritten.", "plimsoll plan CONFIG --json"},
    {"E-INTERRUPTED", "The command was interrupted. A run that has made an update is saved and can be resumed.",
     "It received a signal (Ctrl-C, a closed terminal, a time limit, a shutdown), or the pipe that takes its output was closed.",
     "Resume it. It continues with the next sample. A training that was stopped while it planned has saved nothing and "
     "begins anew, as `plimsoll verify` does.",
     "plimsoll train CONFIG --run DIR --resume"},
    {"E-IO-LFS", "A file is a pointer of Git LFS, not the file itself.",
     "The repository was cloned without Git LFS, which fetches large files, or without fetching them.",
     "Fetch them in the folder of the repository.", "git lfs install && git lfs pull"},
    {"E-IO-MISSING", "A file does not exist or cannot be opened.", "The path is mistyped, is a folder, or you may not read it.",
     "Check the path that the message names.", "ls -l PATH"},
    {"E-IO-READ", "Reading a file failed, or it ended earlier than its size says.",
     "Something shortened it while it was in use, or the disk has an error. A training whose data cannot be read saves first.",
     "Check the disk and the file; a run goes on with --resume once its data can be read.", "ls -l PATH"},
    {"E-IO-WRITE", "A file could not be written; existing files are untouched.",
     "The disk is full, the folder is missing, or you may not write there. Or the name belongs to a device, a pipe, a folder or, "
     "among the files of a run, a link. Files are written aside and renamed when complete. The same holds for a whole folder of "
     "weights.",
     "Free space, or give another folder or name.", "df -h"},
    {"E-LAYOUT-CSV", "A line of the CSV of buffers is not valid.",
     "The columns are id, lower, upper, size in any order; lifetimes are half-open, so upper is at least lower; sizes are whole "
     "numbers.",
     "Correct the line that the message names.", "plimsoll layout FILE.csv --minimize"},
    {"E-MACHINE-FILE", "The machine file cannot be used.", "It is missing, broken, or of another version.",
     "Measure the machine again, or leave --machine out.", "plimsoll machine"},
    {"E-MEM-ARENA", "The system does not give the memory of the plan.",
     "The budget is larger than the free memory, or a limit of the process (ulimit -v) or of the container is lower.",
     "Plan with a smaller budget, or free memory.", "plimsoll plan CONFIG --memory 1GiB"},
    {"E-MEM-COUNT", "The kernel does not tell how much memory this process uses.",
     "/proc is not mounted, or this is no Linux kernel that counts VmHWM. A budget that nobody counts cannot be kept.",
     "Run on a Linux system or in a container that has /proc.", "grep VmHWM /proc/self/status"},
    {"E-MEM-MACHINE", "The budget is larger than the free memory of this machine.",
     "--memory or memory.budget exceeds the memory that the kernel calls available, or the rest of the container's limit. The "
     "kernel would end such a training or its neighbours.",
     "Give a budget that the machine has (the message names it), leave the budget out to take the free memory, or end other "
     "programs.",
     "plimsoll machine"},
    {"E-MEM-PLAN", "Planning, tokenising or measuring needs more memory than the budget.",
     "They keep the budget of the training, counted over all processes that are alive at once. The model has many layers, or a "
     "sample is very long.",
     "Give more memory. With train.micro_batch set, fewer plans are looked at.",
     "plimsoll plan CONFIG --set train.micro_batch=1"},
    {"E-MEM-RESERVE", "After warm-up, the process uses more memory outside its arena than was planned.",
     "Libraries took more than on the machine that was measured. Training stopped before its first update, so the budget was not "
     "silently exceeded.",
     "Measure the machine again; if it remains, plan with a budget that is lower by the bytes in the message.",
     "plimsoll machine CONFIG"},
    {"E-MODEL-TOKENS", "The model reads no tokens.", "Text is generated by language models. This one takes images, for example.",
     "Name the weights of a language model; `plimsoll eval` measures a model of images.", "plimsoll eval CONFIG --weights DIR"},
    {"E-PLAN-ACTIVATIONS", "Activations have to leave memory, and none can.",
     "plan.activations is \"disk\": the inputs of the first blocks rest on the next tier between the passes. That tier needs "
     "room for them and holds optimizer state too, and blocks have to recompute the rest.",
     "Give it a disk or a host, leave plan.recompute and plan.optimizer_state on \"auto\", or let the planner choose.",
     "plimsoll plan CONFIG --disk /tmp/plimsoll:16GiB --set plan.activations=auto"},
    {"E-PLAN-CHANGED", "The run would differ from its plan.",
     "The libraries, the instruction set, the number of threads or the engine of disk transfers are not those of the plan. The "
     "predicted memory would be wrong.",
     "Plan again here. A thread count that differs from the plan's is an error, not a slow path. On a GPU cuBLASLt may choose "
     "another algorithm than in the calibration: then delete the machine file and measure again. `plimsoll machine CONFIG "
     "--device cuda --unverified --json` prints the name of the file.",
     "plimsoll plan CONFIG --out plan.json"},
    {"E-PLAN-FILE", "The file of --plan or --diff is not a plan.", "It was cut short, edited, or written by something else.",
     "Write it anew.", "plimsoll plan CONFIG --out plan.json"},
    {"E-PLAN-FIT", "No plan fits into the budget; nothing was started.",
     "eval, generate and forward need the weights, or a disk for them. For a training the planner tried every value of the keys "
     "that are auto. The floor is the smallest budget that worked. Weights, gradients and optimizer state take 16 bytes per "
     "parameter (adamw) before the first activation.",
     "Take one of the remedies of the message: each is a set of arguments that was planned and fits, with its peak and its time "
     "per update. Remedies that keep the result come first: a key that goes back to auto, a disk, more memory. Leaving "
     "micro_batch, accumulation, recompute and loss_chunks on auto gives the planner most room; none of them changes which "
     "samples an update sees.",
     "plimsoll plan CONFIG --set train.micro_batch=auto --set train.accumulation=auto --set plan.recompute=auto"},
    {"E-PLAN-GROUP", "The group of micro-batches cannot go through each block of this model together.",
     "There are three causes. Gradients would add up in another order if blocks share a parameter. A model without repeated "
     "blocks has no groups. Each micro-batch of a group makes the plan larger.",
     "Leave plan.group on auto, or take a smaller one.", "plimsoll plan CONFIG --set plan.group=auto"},
    {"E-PLAN-REPLAY", "The plan in the file belongs to something else.",
     "It was made for another model, batch, data format or machine, or its decisions or addresses were changed and are not "
     "legal.",
     "Plan again with this configuration on this machine, or leave --plan out.", "plimsoll plan CONFIG --out plan.json"},
    {"E-PROFILE-FILE", "The file of profile --compare is not a profile.",
     "It was cut short, edited, or written by something else.", "Write a new one with profile --json.",
     "plimsoll profile CONFIG --json > profile.json"},
    {"E-RANK-COMMAND", "A command that one process runs alone was started as one of several.",
     "A launcher starts each of its processes with the same command. Only `train` and `machine` share their work.",
     "Run the command without the launcher.", "plimsoll plan CONFIG"},
    {"E-RANK-DEVICE", "Several ranks cannot train on this device.",
     "Ranks exchange their gradients in the memory of processors. GPUs and the simulated device train in one process.",
     "Train on the processor, or in one process.", "plimsoll launch -n 2 train CONFIG --device cpu"},
    {"E-RANK-FOLDER", "A rank does not see the folder of the run.",
     "The first rank writes the records, and each rank writes its part of a checkpoint into the same folder.",
     "Name a folder on a file system that all hosts mount under the same path.", "plimsoll launch -n 2 train CONFIG --run DIR"},
    {"E-RANK-LAUNCH", "Processes were started together, but do not find each other.",
     "The launcher belongs to another MPI, or mpirun could not start the program on a host.",
     "Use `plimsoll launch`, mpirun of Open MPI, or srun --mpi=pmix.", "plimsoll launch -n 2 train CONFIG"},
    {"E-RANK-LOST", "Another rank does not answer any more.",
     "Its process was ended, is stopped, or cannot be reached. A rank that waits longer than parallel.fail_after gives up.",
     "Resume the run from its last checkpoint, with any number of ranks.", "plimsoll launch -n 2 train --run DIR --resume"},
    {"E-RANK-MISMATCH", "The ranks are not alike.",
     "All ranks follow one plan, so they need the same build, libraries, instruction set, threads, configuration and data.",
     "Make them equal as the message proposes.", "plimsoll launch -n 2 train CONFIG --set machine.threads=1"},
    {"E-RANK-MPI", "The module for several ranks cannot be loaded, or mpirun is missing.",
     "plimsoll_mpi.so lies beside the program if Open MPI was there when it was built. It is loaded for several ranks alone.",
     "Install libopenmpi-dev and openmpi-bin, and build again.", "scripts/install_packages ranks"},
    {"E-RESUME", "The run cannot be resumed with this configuration.",
     "A run continues with its own settings and budgets. A setting that changes the result is given again, or was edited since "
     "the run began: in the file, or in the config.json of model.init. A model or an adapter that has moved is taken from its "
     "new "
     "place if its numbers are the same.",
     "Resume without it. --force accepts changes of samples, noise or arithmetic, and changes of the file. The content of the "
     "checkpoint (the model's shape, the optimizer, the batch) cannot change.",
     "plimsoll train --run DIR --resume"},
    {"E-RESUME-DATA", "The training data is not the data with which the run began.",
     "data.train names another file, or its content has changed. Continuing would repeat some samples and never see others.",
     "Resume with the same data, or start another run from the weights of this one.",
     "plimsoll train CONFIG --run NEW --set model.init=DIR/weights"},
    {"E-RUN-BUSY", "Another process is training in this run folder.",
     "Two runs in one folder would write over each other's checkpoint and metrics, so it is locked as long as one goes on.",
     "Wait for the process that the message names, or end it (it saves and can be resumed), or give another folder.",
     "plimsoll train CONFIG --run ANOTHER_FOLDER"},
    {"E-RUN-EXISTS", "The run folder already holds a run.",
     "Nothing that was saved is overwritten. A folder of a run that saved nothing is trained into again.",
     "Give another folder, or continue the run in this one.", "plimsoll train CONFIG --run DIR --resume"},
    {"E-RUN-MISSING", "The folder holds no run.",
     "--resume, runs, watch and export take the folder of a run. In this one no run was started, or its run.json cannot be read.",
     "Look for the folder of the run, or start a run there without --resume.", "plimsoll runs ls"},
    {"E-RUN-ROOM", "The folder of the run has no room for its files; nothing was started.",
     "A run keeps a checkpoint and writes the next one next to it before it replaces it. Weights come at the end, and averages "
     "with optimizer.ema_half_life. They too are complete before they replace older files. Files of the same run in the folder "
     "count as free.",
     "Name a folder on a file system with more room, or free the bytes that the message names.",
     "plimsoll train CONFIG --run ANOTHER_FOLDER"},
    {"E-RUN-STOPPED", "The run was stopped early, and would stop again at once.",
     "Its validation loss had not improved for stop.patience. The evaluations of the run still say so.",
     "To train on, give a longer patience, or 0 for none. The best weights are in DIR/weights_best.",
     "plimsoll train --run DIR --resume --set stop.patience=0"},
    {"E-RUN-STORED", "stored.json of the run does not describe its weights.",
     "The file was edited or torn. It holds the name, type and file that each parameter had in the folder from which the run "
     "began; the weights are saved in the same way.",
     "Put it back, or remove it: the weights are then saved as one file, in the type that they have in memory.",
     "rm DIR/stored.json && plimsoll train --run DIR --resume"},
    {"E-SCALE-FLOOR", "In fp16, gradients overflow with every loss scale.",
     "Three windows in a row did so with a scale below 1, or more than a tenth of the last 200 were skipped. The loss or the "
     "activations are not finite, or gradients are larger than fp16 can hold: a rate that is too high, mostly.",
     "Lower the rate or warm up for longer, and resume from the checkpoint; or compute in bf16, which needs no scale.",
     "plimsoll train CONFIG --set precision.compute=bf16"},
    {"E-SHAPE", "Sizes of operands do not agree.", "A model was described with tensors that do not match.",
     "Look at the shapes in the message; with a configuration from `plimsoll init` this is a defect of Plimsoll.",
     "plimsoll plan CONFIG --values"},
    {"E-SOLVE-KEY", "plan --solve was asked for something that memory does not bound.",
     "It finds the largest context, micro-batch, effective batch, adapter rank or size of the model that fits, or the least "
     "memory, host memory or disk. The message lists the keys of this model; the last part of a name is enough.",
     "Name one of them. For other keys, set a value and look at its plan.", "plimsoll plan CONFIG --memory 2GiB --solve context"},
    {"E-TOKENIZER", "A tokenizer, or a part of it, is not read.",
     "tokenizer.json is broken, or has an unsupported part: docs/tokenizers.md lists the supported ones. Or a pattern in it "
     "takes too long on a text. Or a folder has vocab.json and merges.txt alone, and the text holds tokens that were added to "
     "them. Or the model's tokens are not known and its text would be read as bytes.",
     "Take the folder's tokenizer.json as it was published, or make the tokens with the tokenizer itself and train on them with "
     "data.format = \"u16\", or \"u32\" for more than 65,536 tokens.",
     "plimsoll train CONFIG --set data.train=tokens.bin --set data.format=u16"},
    {"E-USAGE", "The command line cannot be understood.", "An option or command is misspelt, or lacks its value.",
     "Look at the help of the command.", "plimsoll --help"},
    {"E-VERIFY", "A check of Plimsoll's own promises failed.",
     "A measurement differs from the plan, or two runs that must agree do not.",
     "Please report the message with the configuration.", "plimsoll plan CONFIG --json"},
};

}  // namespace

std::span<const CodeExplanation> code_explanations() { return kExplanations; }

}  // namespace plimsoll
