"""scripts/setup.sh answers bad use in words. usage: setup_script_test.py SOURCE_DIRECTORY"""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop())


def setup(*args: str, path: str = "", cwd: pathlib.Path = SOURCE, **env: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": path + os.environ["PATH"], "EASYDEL_SKIP_APT": "1", **env}
    return subprocess.run([cwd / "scripts/setup.sh", *args], env=environment, capture_output=True, text=True)


def stub(directory: str, name: str, body: str) -> None:
    file = pathlib.Path(directory) / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IEXEC)


class SetupScript(unittest.TestCase):
    def test_refuses_an_unknown_mode(self):
        done = setup("biuld")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, 'setup: usage: scripts/setup.sh build|test|lint; got "biuld".\n')

    def test_refuses_a_torch_that_is_too_old(self):
        with tempfile.TemporaryDirectory() as torch:
            cmake = pathlib.Path(torch) / "share/cmake/Torch"
            cmake.mkdir(parents=True)
            (cmake / "TorchConfigVersion.cmake").write_text('set(PACKAGE_VERSION "2.9.1")\n')
            done = setup("build", EASYDEL_TORCH=torch)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"setup: torch 2.11 or newer is needed; EASYDEL_TORCH={torch} is 2.9.1.\n")

    def test_refuses_a_directory_that_holds_no_torch(self):
        done = setup("build", EASYDEL_TORCH="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("EASYDEL_TORCH=/nowhere holds no libtorch", done.stderr)

    def test_names_the_command_when_packages_are_missing_and_it_is_not_root(self):
        with tempfile.TemporaryDirectory() as bin_directory:
            stub(bin_directory, "id", 'if [ "$1" = -u ]; then echo 1000; else echo user; fi')
            stub(bin_directory, "sudo", "exit 1")
            stub(bin_directory, "dpkg-query", "exit 1")
            done = setup("lint", path=bin_directory + ":", EASYDEL_SKIP_APT="0")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(
                done.stderr,
                "setup: these Debian packages are missing, and only root can install them. "
                "Run: sudo apt-get install -y clang-format-19 clang-tidy-19\n",
            )

    def test_says_how_much_space_is_missing(self):
        with tempfile.TemporaryDirectory() as bin_directory, tempfile.TemporaryDirectory() as clone:
            scripts = pathlib.Path(clone) / "scripts"
            scripts.mkdir()
            (scripts / "setup.sh").write_text((SOURCE / "scripts/setup.sh").read_text())
            (scripts / "setup.sh").chmod(0o755)
            stub(bin_directory, "df", "echo header; echo 'disk 100 90 12 90% /'")
            done = setup("build", path=bin_directory + ":", cwd=pathlib.Path(clone), EASYDEL_TORCH="")
            self.assertEqual(done.returncode, 1)
            self.assertIn("has 12 MiB free; torch and a build need 3000 MiB", done.stderr)


if __name__ == "__main__":
    unittest.main()
