"""Where the admin is: the routes of benchmarks/django_admin_peer.py."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
