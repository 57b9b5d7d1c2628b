"""The other side of the tests of recordings: draws files with libsndfile, what it decodes of them, and what transformers'
WhisperFeatureExtractor makes of that. usage: audio_peer.py write DIRECTORY COUNT SEED"""

import ctypes
import json
import math
import pathlib
import random
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import WhisperFeatureExtractor

transformers.logging.set_verbosity_error()
SNDFILE = ctypes.CDLL("libsndfile.so.1")
SNDFILE.sf_open.restype = ctypes.c_void_p
SNDFILE.sf_strerror.restype = ctypes.c_char_p
for function in (SNDFILE.sf_writef_float, SNDFILE.sf_readf_float):
    function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
SNDFILE.sf_close.argtypes = [ctypes.c_void_p]

# Types and subtypes of sndfile.h.
KINDS = {"u8.wav": 0x010005, "s16.wav": 0x010002, "s24.wav": 0x010003, "s32.wav": 0x010004, "f32.wav": 0x010006, "f64.wav": 0x010007,
         "s16.flac": 0x170002, "s24.flac": 0x170003, "vorbis.ogg": 0x200060, "layer3.mp3": 0x230082}
EXTRACTORS = {
    "plain": dict(chunk_length=3),
    "wide": dict(feature_size=128, chunk_length=2, padding_value=0.01),
    "other": dict(feature_size=20, hop_length=100, n_fft=512, chunk_length=1, padding_side="left"),
}


class Info(ctypes.Structure):
    _fields_ = [("frames", ctypes.c_int64), ("samplerate", ctypes.c_int), ("channels", ctypes.c_int), ("format", ctypes.c_int),
                ("sections", ctypes.c_int), ("seekable", ctypes.c_int)]


def opened(path: pathlib.Path, mode: int, info: Info) -> int:
    handle = SNDFILE.sf_open(str(path).encode(), mode, ctypes.byref(info))
    assert handle, (path, SNDFILE.sf_strerror(None))
    return handle


def write_sound(path: pathlib.Path, samples: np.ndarray, rate: int, kind: int) -> None:
    info = Info(samplerate=rate, channels=samples.shape[1], format=kind)
    handle = opened(path, 0x20, info)
    samples = np.ascontiguousarray(samples, dtype=np.float32)
    assert SNDFILE.sf_writef_float(handle, samples.ctypes.data, len(samples)) == len(samples)
    SNDFILE.sf_close(handle)


def read_sound(path: pathlib.Path) -> np.ndarray:
    info = Info()
    handle = opened(path, 0x10, info)
    samples = np.zeros((info.frames + 4096, info.channels), dtype=np.float32)
    got = SNDFILE.sf_readf_float(handle, samples.ctypes.data, len(samples))
    SNDFILE.sf_close(handle)
    return samples[:got]


def resampled(wave: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """torchaudio.functional.resample with its defaults, in float64."""
    common = math.gcd(rate, wanted)
    old, new = rate // common, wanted // common
    base = min(old, new) * 0.99
    width = math.ceil(6 * old / base)
    times = (np.arange(-width, width + old)[None] / old - np.arange(new)[:, None] / new) * base
    times = times.clip(-6, 6)
    window = np.cos(times * math.pi / 6 / 2) ** 2
    kernel = np.sinc(times) * window * base / old
    padded = torch.from_numpy(np.pad(wave.astype(np.float64), (width, width + old)))[None, None]
    out = torch.nn.functional.conv1d(padded, torch.from_numpy(kernel)[:, None], stride=old)
    return out[0].T.reshape(-1)[: math.ceil(new * len(wave) / old)].numpy()


def write(directory: pathlib.Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    sounds = directory / "sounds"
    sounds.mkdir(parents=True)
    decoded, mono = {}, {}
    for i in range(count):
        kind = list(KINDS)[i % len(KINDS)]
        rate = 16000 if i % 3 else rng.choice([8000, 11025, 22050, 32000, 44100, 48000])
        channels = rng.choice([1, 1, 2]) if kind.endswith("mp3") else rng.choice([1, 1, 2, 3, 6, 8])
        frames = rng.choice([1, 37, 801, 16000, 40000, rng.randint(100, 70000)])
        time = np.arange(frames)[:, None] / rate
        tones = sum(np.sin(2 * np.pi * time * np.array([rng.uniform(60, rate / 2) for _ in range(channels)])) for _ in range(3)) / 3
        noise = np.random.default_rng(seed + i).standard_normal((frames, channels)) * rng.choice([0, 0.01, 0.3])
        loudness = 0.0 if i % 11 == 5 else rng.choice([1e-4, 0.1, 0.9])  # some are silent
        name = f"{i:03d}.{kind}"
        write_sound(sounds / name, (loudness * (tones + noise)).clip(-1, 1), rate, KINDS[kind])
        samples = read_sound(sounds / name)
        if len(samples) == 0:  # a lossy coder may have nothing to say of a frame or two
            (sounds / name).unlink()
            continue
        decoded[name] = torch.from_numpy(samples)
        wave = samples.mean(axis=1, dtype=np.float64).astype(np.float32) if channels > 1 else samples[:, 0]
        mono[name] = torch.from_numpy(np.ascontiguousarray(wave if rate == 16000 else resampled(wave, rate, 16000)))
    save_file(decoded, directory / "decoded.safetensors")
    save_file(mono, directory / "mono.safetensors")
    for number, (folder, settings) in enumerate(EXTRACTORS.items()):
        extractor = WhisperFeatureExtractor(**settings)
        extractor.save_pretrained(directory / folder)
        if number == 1:  # nested, as processors with a tokenizer are saved
            file = directory / folder / "preprocessor_config.json"
            (directory / folder / "processor_config.json").write_text(json.dumps({"feature_extractor": json.loads(file.read_text())}))
            file.unlink()
        features = {}
        for name, wave in mono.items():
            if wave.dtype == torch.float32:
                features[name] = extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt").input_features
                if len(wave) > extractor.n_samples:
                    features["whole-" + name] = extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt", truncation=False,
                                                          padding="longest").input_features
        save_file({name: tensor.contiguous() for name, tensor in features.items()}, directory / folder / "expected.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
