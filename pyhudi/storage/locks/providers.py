"""Construction of the Apache Hudi lock that options name."""

from __future__ import annotations

from urllib.parse import urlsplit

from pyhudi.errors import OptionError
from pyhudi.options import LockProvider, LockRules
from pyhudi.options.catalogs import servers
from pyhudi.storage.filesystem import FileSystem, Mutex
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.hive_lock import (
    METASTORE_TIMEOUT_SECONDS,
    HiveLockPlace,
    HiveMetastoreMutex,
)
from pyhudi.storage.locks.hudi_lock_file import LockFileMutex
from pyhudi.storage.locks.zookeeper import ZooKeeperMutex, ZooKeeperPlace

_LOCK = "hoodie.write.lock."
_DEFAULT_PORT = 2181


def provided(fs: FileSystem, rules: LockRules) -> Mutex | None:
    """The lock that writers of the table at `fs` share with Apache Hudi's; None if there is none.

    Makes no request.  Raises OptionError for a provider that cannot be used.
    """
    match rules.provider:
        case LockProvider.FILE:
            return _lock_file(fs, rules)
        case LockProvider.ZOOKEEPER:
            return ZooKeeperMutex(_zookeeper(rules))
        case LockProvider.HIVE_METASTORE:
            return HiveMetastoreMutex(_metastore(rules))
        case _:
            return None


def _lock_file(fs: FileSystem, rules: LockRules) -> LockFileMutex:
    """Apache Hudi rejects this provider if creating a file is not atomic in the store."""
    if fs.url.partition("://")[0] not in (fs.url, "hdfs", "webhdfs", "memory"):
        raise OptionError(
            "Apache Hudi does not support lock files on object stores",
            option=_LOCK + "provider",
            value="FileSystemBasedLockProvider",
            path=fs.url,
            hint="share a ZookeeperBasedLockProvider",
        )
    folder = (rules.folder or f"{fs.url}/.hoodie").rstrip("/")
    if folder.startswith("file:"):
        folder = urlsplit(folder).path
    if folder.startswith(f"{fs.url}/"):
        path = f"{folder[len(fs.url) + 1 :]}/lock"
        return LockFileMutex(fs, path, expire_seconds=rules.expire_seconds)
    if isinstance(fs, LocalFileSystem) and "://" not in folder:
        elsewhere = LocalFileSystem(folder)
        return LockFileMutex(elsewhere, "lock", expire_seconds=rules.expire_seconds)
    raise OptionError(
        "the folder of the lock file must be below the table",
        option=_LOCK + "filesystem.path",
        value=folder,
        path=fs.url,
    )


def _zookeeper(rules: LockRules) -> ZooKeeperPlace:
    settings = {
        "url": rules.zookeeper_url,
        "base_path": rules.zookeeper_base_path,
        "lock_key": rules.zookeeper_lock_key,
    }
    for name, value in settings.items():
        if not value:
            raise OptionError(
                "the ZooKeeper lock requires another option",
                option=f"{_LOCK}zookeeper.{name}",
                hint="use the same value as Apache Hudi's writers"
                + (" (default: the table's name)" if name == "lock_key" else ""),
            )
    hosts = str(rules.zookeeper_url)
    bare = any(":" not in host for host in hosts.partition("/")[0].split(","))
    if bare and rules.zookeeper_port not in (None, _DEFAULT_PORT):
        raise OptionError(
            "the port is set separately from the host",
            option=_LOCK + "zookeeper.port",
            value=rules.zookeeper_port,
            hint=f"Apache Hudi ignores it: set host:port in {_LOCK}zookeeper.url",
        )
    path = f"/{rules.zookeeper_base_path}/{rules.zookeeper_lock_key}"
    return ZooKeeperPlace(
        hosts,
        "/" + "/".join(part for part in path.split("/") if part),
        session_seconds=rules.zookeeper_session_seconds,
        connect_seconds=rules.zookeeper_connect_seconds,
    )


def _metastore(rules: LockRules) -> HiveLockPlace:
    uris, database, table = rules.metastore_uris, rules.metastore_database, rules.metastore_table
    for name, value in (("uris", uris), ("database", database), ("table", table)):
        if not value:
            raise OptionError(
                "the lock of a Hive Metastore requires another option",
                option=f"{_LOCK}hivemetastore.{name}",
                hint="use the same value as Apache Hudi's writers"
                + (" (default: hive.metastore.uris of hive-site.xml)" if name == "uris" else ""),
            )
    if not 0 < rules.heartbeat_seconds < METASTORE_TIMEOUT_SECONDS:
        raise OptionError(
            "heartbeats of a lock must be sent before the metastore removes it",
            option=_LOCK + "heartbeat_interval_ms",
            value=round(rules.heartbeat_seconds * 1000),
            hint=f"set more than 0 and less than {METASTORE_TIMEOUT_SECONDS * 1000:.0f}",
        )
    return HiveLockPlace(
        servers(str(uris)),
        str(database).lower(),  # as the metastore stores them
        str(table).lower(),
        heartbeat_seconds=rules.heartbeat_seconds,
    )
