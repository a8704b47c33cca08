"""The master: which node gets a session, and which node a request is for."""

from webgym.browser.master.master import Master
from webgym.browser.master.member import LocalMember, Member
from webgym.browser.master.remote import RemoteMember

__all__ = ["LocalMember", "Master", "Member", "RemoteMember"]
