"""Attacks on the files of the machine, of the installation, and of other tasks."""

from __future__ import annotations

import os

from tests.security.isolation.attacks import FILES, attack, reached, stopped
from tests.security.isolation.toolkit import Host, first_of, read

NOT_THERE = stopped("it is not mounted")
OWNER = stopped("its owner alone may read it")
CLOSED = stopped("the folders above it are closed to the task's user")


@attack(
    FILES,
    process=stopped("it is root's"),
    sandbox=stopped("it is not mounted, or root's"),
    quick=True,
)
def password_hashes(host: Host) -> object:
    """Read the password hashes of the machine, `/etc/shadow`."""
    return read("/etc/shadow")


@attack(
    FILES,
    process=reached("all users of the machine may read it"),
    sandbox=NOT_THERE,
    quick=True,
)
def public_file(host: Host) -> object:
    """Read a file below `/var` that all users of the machine may read."""
    return read(host.public_file) == host.canary.encode()


@attack(FILES, process=stopped("/root is closed"), sandbox=NOT_THERE)
def home_of_root(host: Host) -> object:
    """List the home of root."""
    return os.listdir("/root")


@attack(
    FILES,
    process=CLOSED,
    ordinary=reached("it belongs to the task's own user"),
    sandbox=NOT_THERE,
)
def admin_key(host: Host) -> object:
    """Read the admin key of the installation, `client.json` in the data folder."""
    return read(host.data_dir + "/client.json")


@attack(FILES, process=CLOSED, ordinary=reached("it belongs to the task's own user"), sandbox=NOT_THERE)
def data_folder(host: Host) -> object:
    """List the data folder: keys, scripts, outputs."""
    # In a sandbox its name may be there, as that of a folder above the task's own.
    return set(os.listdir(host.data_dir)) - {"work"}


@attack(FILES, process=OWNER, ordinary=reached("it belongs to the task's own user"), sandbox=NOT_THERE)
def configuration(host: Host) -> object:
    """Read the `secrets.toml` of the executor."""
    return read(host.config_file)


@attack(FILES, process=CLOSED, sandbox=NOT_THERE, with_root_alone=True)
def database_password(host: Host) -> object:
    """Read the password of the embedded database."""
    return read(host.password_file)


@attack(
    FILES,
    process=CLOSED,
    ordinary=reached("both tasks are the same user"),
    sandbox=NOT_THERE,
    quick=True,
)
def folder_of_a_stranger(host: Host) -> object:
    """Read a file in the work folder of a task of another namespace."""
    return read(host.stranger_folder + "/secret")


@attack(
    FILES,
    process=reached("both tasks are the same user"),
    sandbox=NOT_THERE,
    quick=True,
)
def folder_of_a_neighbour(host: Host) -> object:
    """Read a file in the work folder of another task of the same namespace."""
    return read(host.neighbour_folder + "/secret")


@attack(
    FILES,
    process=stopped("it is root's"),
    sandbox=stopped("it is read-only, and root's"),
    quick=True,
)
def system_folders(host: Host) -> object:
    """Write a program into `/usr/bin`, `/usr/local/bin` or `/bin`."""
    place = f"/{host.token}"

    def put(folder: str) -> str:
        with open(folder + place, "w"):
            os.unlink(folder + place)
        return folder

    return first_of(put, ("/usr/bin", "/usr/local/bin", "/bin"))


@attack(FILES, process=stopped("they are root's"), sandbox=stopped("they are read-only, and root's"))
def configuration_of_the_machine(host: Host) -> object:
    """Write to `/etc`: to `passwd`, `hosts`, `ld.so.preload`, a line for cron."""
    places = ["/etc/passwd", "/etc/hosts", f"/etc/cron.d/{host.token}", f"/etc/{host.token}"]

    def opened(place: str) -> str:
        had = os.path.exists(place)
        with open(place, "a"):
            pass
        if not had:
            os.unlink(place)
        return place

    return first_of(opened, places)


@attack(FILES, process=stopped("the packages are root's"), sandbox=stopped("they are read-only, and root's"))
def packages_of_python(host: Host) -> object:
    """Write to the library of Python that it runs with, so that others import it."""
    import json

    with open(json.__file__, "ab"):
        return json.__file__


@attack(FILES, process=reached("/tmp, /var/tmp and /dev/shm are everybody's"), sandbox=stopped("none is mounted"))
def places_that_last(host: Host) -> object:
    """Find a folder of the machine outside of its own that it can write to, where a file stays after its end."""
    return os.path.isdir(host.public_folder) and os.access(host.public_folder, os.W_OK)


@attack(
    FILES,
    process=stopped("the kernel's `protected_hardlinks`, and its work folder is another file system or user's"),
    sandbox=NOT_THERE,
)
def link_to_a_file_of_another(host: Host) -> object:
    """Make a hard link in its work folder to a file of another user, to keep it or to have the executor change it."""
    os.link(host.public_file, "kept")
    return os.stat("kept").st_ino


@attack(FILES, process=stopped("it is root's"), sandbox=stopped("no control group is mounted, or it is read-only"))
def control_groups(host: Host) -> object:
    """Make a control group, or leave its own, to be rid of its limits."""

    def make(folder: str) -> str:
        os.mkdir(f"{folder}/{host.token}")
        os.rmdir(f"{folder}/{host.token}")
        return folder

    base = "/sys/fs/cgroup"
    folders = [base, *(f"{base}/{name}" for name in ("memory", "pids", "unified", "cpu"))]
    return first_of(make, folders)


@attack(
    FILES,
    process=stopped("they are root's"),
    sandbox=stopped("they are read-only, and root's"),
    quick=True,
)
def settings_of_the_kernel(host: Host) -> object:
    """Write to `/proc/sys`: the program that takes core dumps (`core_pattern`), or the one that loads modules."""
    places = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger")
    return first_of(lambda place: os.open(place, os.O_WRONLY), places)


@attack(FILES, process=reached("/sys describes the machine to all users"), sandbox=stopped("/sys is not mounted"))
def hardware(host: Host) -> object:
    """Read `/sys`: the devices, the network cards and the firmware of the machine."""
    return os.listdir("/sys/class/net")


@attack(FILES, process=stopped("it is root's"), sandbox=stopped("/sys is not mounted"), is_shown=False)
def debugging_of_the_kernel(host: Host) -> object:
    """Read `/sys/kernel/debug` or trace the kernel through `/sys/kernel/tracing`."""
    folders = ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/firmware/efi/efivars")
    return first_of(os.listdir, folders)
